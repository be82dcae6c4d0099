#!/bin/sh
# Start state: the labelled table, made from a clean one, and the rows to classify.
set -eu
here=$(dirname "$0")
mkdir -p /app/data
python3 "$here/make_train.py" "$here/train_base.csv" /app/data/train.csv
cp "$here/files/test.csv" /app/data/test.csv
