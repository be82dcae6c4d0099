#!/bin/sh
# Tries to answer the one example of the specification without interpreting anything.
cat >/app/vm.c <<'C'
#include <stdio.h>
int main(int argc, char **argv)
{
    FILE *f;
    if (argc < 2)
        return 64;
    f = fopen(argv[argc - 1], "rb");
    if (!f)
        return 66;
    fclose(f);
    puts("Hi 42");
    return 7;
}
C
