#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "format.h"
#include "options.h"
#include "stats.h"
#include "text.h"
#include "units.h"

struct series {
    char *name;
    struct stats stats; /* in seconds */
    struct series *next;
};

static struct series *find(struct series **list, const char *name)
{
    while (*list && strcmp((*list)->name, name) != 0)
        list = &(*list)->next;
    if (!*list) {
        *list = calloc(1, sizeof **list);
        if (!*list)
            exit(1);
        (*list)->name = text_copy(name);
    }
    return *list;
}

static int bad(long number, const char *reason)
{
    fprintf(stderr, "line %ld: %s\n", number, reason);
    return 1;
}

static void report(const struct series *s, const struct options *o)
{
    char b[5][400];
    double f = o->unit->seconds;
    int d = o->decimals;
    size_t n = sizeof b[0];

    printf("%s n=%ld mean=%s sd=%s geo=%s min=%s max=%s %s\n", s->name, s->stats.count,
           format_number(stats_mean(&s->stats) / f, d, b[0], n),
           format_number(stats_deviation(&s->stats) / f, d, b[1], n),
           format_number(stats_geometric(&s->stats) / f, d, b[2], n),
           format_number(s->stats.min / f, d, b[3], n),
           format_number(s->stats.max / f, d, b[4], n),
           unit_label(o->unit));
}

int main(int argc, char **argv)
{
    struct options o = options_read(argc, argv);
    struct series *list = NULL, *s;
    char line[MAX_LINE];
    long number = 0;

    while (fgets(line, sizeof line, stdin)) {
        char *name = trim(line), *value, *unit, *end;
        const struct unit *u;
        double v;

        number++;
        if (*name == '\0' || *name == '#')
            continue;
        value = split(name, '=');
        if (!value)
            return bad(number, "no =");
        name = trim(name);
        if (*name == '\0' || strpbrk(name, " \t"))
            return bad(number, "bad name");
        value = trim(value);
        v = strtod(value, &end);
        if (end == value || (*end != ' ' && *end != '\t') || !(v > 0.0))
            return bad(number, "bad value");
        unit = trim(end);
        u = unit_find(unit);
        if (!u)
            return bad(number, "unknown unit");
        stats_add(&find(&list, name)->stats, v * u->seconds);
    }
    if (verbose)
        fprintf(stderr, "read %ld lines\n", number);
    printf("metrics %s\n", METRICS_VERSION);
    for (s = list; s; s = s->next)
        report(s, &o);
    return 0;
}
