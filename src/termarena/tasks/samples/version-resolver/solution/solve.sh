#!/bin/sh
set -eu
here=$(dirname "$0")
cp "$here/resolve.py" /app/resolve
chmod 755 /app/resolve
/app/resolve /app/index /app/requirements.txt /app/lock.txt
