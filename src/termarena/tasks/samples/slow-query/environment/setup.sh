#!/bin/sh
# Puts the query, the schema and the measuring tool into /app and makes the sample database.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p /app
cp -r "$here/files/." /app/
python3 -B "$here/make_db.py" /app/schema.sql /app/sample.db
