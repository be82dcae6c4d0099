#!/bin/sh
set -eu
here=$(dirname "$0")
cp "$here/superv.py" /app/superv
chmod 755 /app/superv
