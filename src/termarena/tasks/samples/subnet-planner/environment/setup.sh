#!/bin/sh
# Puts the visible request into /app.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p /app
cp -r "$here/files/." /app/
