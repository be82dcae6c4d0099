#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

static int is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

char *trim(char *s)
{
    size_t n;

    while (is_blank(*s))
        s++;
    n = strlen(s);
    while (n > 0 && is_blank(s[n - 1]))
        n--;
    s[n] = '\0';
    return s;
}

char *split(char *s, char c)
{
    char *at = strchr(s, c);

    if (!at)
        return NULL;
    *at = '\0';
    return at + 1;
}

char *text_copy(const char *s)
{
    size_t n = strlen(s) + 1;
    char *copy = malloc(n);

    if (!copy) {
        fputs("out of memory\n", stderr);
        exit(1);
    }
    return memcpy(copy, s, n);
}
