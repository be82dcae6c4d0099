#include <stddef.h>

#include "text.h"
#include "units.h"
#include "units_table.h"

const struct unit *unit_find(const char *name)
{
    size_t i;

    for (i = 0; i < sizeof units_table / sizeof units_table[0]; i++)
        if (text_equal(units_table[i].name, name))
            return &units_table[i];
    return NULL;
}
