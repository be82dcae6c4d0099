#!/bin/sh
set -eu
here=$(dirname "$0")
cp "$here/server.py" /app/server.py
# Comes back when it listens; what serves is then out of reach of this shell's end.
python3 /app/server.py </dev/null >/dev/null 2>&1
