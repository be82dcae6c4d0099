#include <stdio.h>
#include <string.h>

#include "format.h"

/* Cuts zeros off the end of a fraction, in place; returns s. */
char *trim(char *s)
{
    size_t n = strlen(s);

    if (!strchr(s, '.'))
        return s;
    while (s[n - 1] == '0')
        n--;
    if (s[n - 1] == '.')
        n--;
    s[n] = '\0';
    return s;
}

char *format_number(double value, int decimals, char *buffer, size_t size)
{
    snprintf(buffer, size, "%.*f", decimals, value);
    return trim(buffer);
}
