#include "units.h"

const char *unit_label(const struct unit *u)
{
    return u->name;
}
