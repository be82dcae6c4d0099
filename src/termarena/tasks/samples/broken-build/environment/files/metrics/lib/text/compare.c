#include <string.h>

#include "text.h"

int text_equal(const char *a, const char *b)
{
    return strcasecmp(a, b) == 0;
}
