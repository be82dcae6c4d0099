#ifndef FORMAT_H
#define FORMAT_H

#include <stddef.h>

/* Writes value with that many decimals at most to buffer; returns buffer. */
char *format_number(double value, int decimals, char *buffer, size_t size);

#endif
