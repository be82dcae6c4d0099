#!/bin/sh
set -eu
here=$(dirname "$0")
cd /app/metrics

# Sources: a missing declaration, a variable defined in a header, and a helper
# that was visible to the linker under the name of a library function.
sed -i 's/#include <string.h>/#include <strings.h>/' lib/text/compare.c
sed -i 's/^int verbose;/extern int verbose;/' include/config.h
sed -i 's/^static void usage(void)/int verbose;\n\n&/' src/options.c
sed -i 's/^char \*trim(/static char *trim(/' src/format.c

cp "$here/Makefile" Makefile
make
