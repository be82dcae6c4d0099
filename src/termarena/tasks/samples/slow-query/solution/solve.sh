#!/bin/sh
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cp "$here/indexes.sql" "$here/report.sql" /app/
