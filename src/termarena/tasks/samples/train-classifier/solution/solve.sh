#!/bin/sh
set -eu
here=$(dirname "$0")
cp "$here/features.py" /app/
cp "$here/classify.py" /app/classify
chmod 755 /app/classify
python3 "$here/train.py"
/app/classify /app/data/test.csv /app/predictions.csv
