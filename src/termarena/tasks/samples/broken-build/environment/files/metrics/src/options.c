#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "options.h"
#include "units.h"

static void usage(void)
{
    fputs("usage: metrics [-v] [-p DECIMALS] [-u UNIT]\n", stderr);
    exit(2);
}

struct options options_read(int argc, char **argv)
{
    struct options o = { DEFAULT_DECIMALS, unit_find("s") };
    int i;

    for (i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-v") == 0) {
            verbose = 1;
        } else if (strcmp(argv[i], "-p") == 0 && i + 1 < argc) {
            const char *p = argv[++i];
            if (p[0] < '0' || p[0] > '9' || p[1] != '\0')
                usage();
            o.decimals = p[0] - '0';
        } else if (strcmp(argv[i], "-u") == 0 && i + 1 < argc) {
            o.unit = unit_find(argv[++i]);
        } else {
            usage();
        }
    }
    if (!o.unit)
        usage();
    return o;
}
