#ifndef OPTIONS_H
#define OPTIONS_H

struct unit;

struct options {
    int decimals;
    const struct unit *unit;
};

/* Reads the command line; ends the program with status 2 if it is wrong. */
struct options options_read(int argc, char **argv);

#endif
