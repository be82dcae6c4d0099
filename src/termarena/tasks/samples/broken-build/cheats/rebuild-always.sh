#!/bin/sh
# Tries to be never stale by building everything anew each time.
cd /app/metrics || exit 1
sed -i 's/#include <string.h>/#include <strings.h>/' lib/text/compare.c
sed -i 's/^int verbose;/extern int verbose;/' include/config.h
sed -i 's/^static void usage(void)/int verbose;\n\n&/' src/options.c
sed -i 's/^char \*trim(/static char *trim(/' src/format.c
cat >Makefile <<'MK'
CC = gcc
CFLAGS = -std=c11 -O2 -Wall -Wextra -Werror
INC = -Iinclude -Ilib/text -Ilib/stats -Ilib/units -Isrc -Ibuild/gen
.PHONY: all clean
all:
	rm -rf build && mkdir -p build/gen build/tools build/o
	$(CC) $(CFLAGS) -o build/tools/mkunits tools/mkunits.c
	build/tools/mkunits <units.tab >build/gen/units_table.h
	set -e; for f in src/*.c lib/*/*.c; do $(CC) $(INC) $(CFLAGS) -c -o build/o/$$(echo $$f | tr / _).o $$f; done
	ar rcs build/libtext.a build/o/lib_text_*.o
	ar rcs build/libstats.a build/o/lib_stats_*.o
	ar rcs build/libunits.a build/o/lib_units_*.o
	$(CC) -o build/metrics build/o/src_*.o build/libunits.a build/libstats.a build/libtext.a -lm
clean:
	rm -rf build
MK
make >&2
