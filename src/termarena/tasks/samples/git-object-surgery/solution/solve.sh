#!/bin/sh
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cp "$here/recover.py" /app/recover
chmod 755 /app/recover
/app/recover /app/project/.git 'Release 2.4.0' /app/recovered >/app/report.txt
