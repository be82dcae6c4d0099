#ifndef CONFIG_H
#define CONFIG_H

#define METRICS_VERSION "2.1"
#define DEFAULT_DECIMALS 3
#define MAX_LINE 1024

/* set by option -v */
int verbose;

#endif
