#ifndef UNITS_H
#define UNITS_H

struct unit {
    const char *name;
    double seconds;
};

/* The unit of that name, or NULL. */
const struct unit *unit_find(const char *name);

/* How a unit is shown. */
const char *unit_label(const struct unit *u);

#endif
