#!/bin/sh
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cp "$here"/ledger/*.py /app/ledger/
[ "$(python3 -B /app/examples/run.py)" = "$(cat /app/examples/february.txt)" ]
