#include <math.h>

#include "stats.h"

void stats_add(struct stats *s, double value)
{
    double delta, mean;

    if (s->count == 0 || value < s->min)
        s->min = value;
    if (s->count == 0 || value > s->max)
        s->max = value;
    /* Welford: squares is the sum of squared distances from the mean */
    mean = s->count ? s->sum / (double)s->count : 0.0;
    delta = value - mean;
    s->count++;
    s->sum += value;
    s->squares += delta * (value - s->sum / (double)s->count);
    s->logs += log(value);
}

double stats_mean(const struct stats *s)
{
    return s->sum / (double)s->count;
}

double stats_deviation(const struct stats *s)
{
    if (s->count <= STATS_DDOF)
        return 0.0;
    return sqrt(s->squares / (double)(s->count - STATS_DDOF));
}

double stats_geometric(const struct stats *s)
{
    return exp(s->logs / (double)s->count);
}
