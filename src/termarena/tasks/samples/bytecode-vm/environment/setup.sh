#!/bin/sh
# Start state: only the machine's description.
set -eu
here=$(dirname "$0")
mkdir -p /app
cp "$here/files/SPEC.md" /app/SPEC.md
