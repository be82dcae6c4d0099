#!/bin/sh
# Start state: the format's description and a table to convert.
set -eu
here=$(dirname "$0")
mkdir -p /app/data
cp "$here/files/SPEC.md" /app/SPEC.md
python3 "$here/gen_orders.py" /app/data/orders.csv
