#!/bin/sh
set -eu
here=$(dirname "$0")
cp "$here/csv2col.py" /app/csv2col
chmod 755 /app/csv2col
/app/csv2col /app/data/orders.csv /app/data/orders.tcf
