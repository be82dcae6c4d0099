#!/bin/sh
# Start state: a small index and what is wanted of it.
set -eu
here=$(dirname "$0")
mkdir -p /app
cp -r "$here/files/." /app/
