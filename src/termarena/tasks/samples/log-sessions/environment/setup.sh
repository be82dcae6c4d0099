#!/bin/sh
# Makes /app/access.log from a fixed seed.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p /app
python3 "$here/make_log.py" >/app/access.log
