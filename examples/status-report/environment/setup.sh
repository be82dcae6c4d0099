#!/bin/sh
# Makes the start state: in the image, and where there is none.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p /app
cp "$here/files/access.log" /app/access.log
