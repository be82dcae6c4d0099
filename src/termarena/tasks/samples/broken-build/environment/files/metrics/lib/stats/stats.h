#ifndef STATS_H
#define STATS_H

/* 1: standard deviation of a sample; 0: of a population */
#define STATS_DDOF 1

struct stats {
    long count;
    double sum, squares, logs, min, max;
};

void stats_add(struct stats *s, double value);
double stats_mean(const struct stats *s);
double stats_deviation(const struct stats *s);
double stats_geometric(const struct stats *s);

#endif
