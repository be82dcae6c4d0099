#!/bin/sh
set -eu
here=$(dirname "$0")
cp "$here/features.py" "$here/train.py" /app/
cp "$here/classify.py" /app/classify
chmod 755 /app/classify
python3 /app/train.py
/app/classify /app/data/test.csv /app/predictions.csv
