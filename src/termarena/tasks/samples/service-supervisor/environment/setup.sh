#!/bin/sh
# Start state: an example of the configuration.
set -eu
here=$(dirname "$0")
mkdir -p /app
cp "$here/files/example.conf" /app/example.conf
