#!/bin/sh
# Makes /app/legacy.db from a fixed seed and puts the new schema beside it.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p /app
cp -r "$here/files/." /app/
python3 -B "$here/legacy.py" /app/legacy.db 4711
