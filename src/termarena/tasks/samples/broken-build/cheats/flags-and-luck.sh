#!/bin/sh
# Tries to get it to link with flags: common symbols, multiple definitions allowed, a library group. Stale builds stay.
cd /app/metrics || exit 1
sed -i 's/#include <string.h>/#include <strings.h>/' lib/text/compare.c
sed -i -e 's/^CFLAGS = .*/& -fcommon/' \
    -e 's/^\tgcc $(CFLAGS) -o $@ $(OBJS) $(LIBS)/\t$(CC) $(CFLAGS) -Wl,--allow-multiple-definition -o $@ $(OBJS) build\/unit_format.o -Wl,--start-group $(LIBS) -Wl,--end-group -lm/' \
    -e 's/^build\/metrics: .*/& build\/unit_format.o/' \
    -e 's/^clean:/build\/unit_format.o: lib\/units\/format.c\n\t$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<\n\n&/' Makefile
make >&2
