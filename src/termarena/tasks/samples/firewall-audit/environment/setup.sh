#!/bin/sh
# Puts the rule file, the packets and the description of the language into /app.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p /app
cp -r "$here/files/." /app/
