#!/bin/sh
# Puts the package and its example into /app.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p /app
cp -r "$here/files/." /app/
