#!/bin/sh
set -eu
here=$(cd "$(dirname "$0")" && pwd)
# The schema goes into the program, so that it works without /app/schema.sql.
python3 - "$here/migrate.py" /app/schema.sql /app/migrate <<'PY'
import sys

program, schema = (open(path).read() for path in sys.argv[1:3])
with open(sys.argv[3], "w") as out:
    out.write(program.replace("@SCHEMA@", "\n" + schema))
PY
chmod 755 /app/migrate
/app/migrate /app/legacy.db /app/new.db
