#!/bin/sh
# Makes /app/project/.git, the damaged repository; the same one every time.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p /app/project
PYTHONDONTWRITEBYTECODE=1 python3 -c '
import sys
sys.path.insert(0, sys.argv[1])
import gitmake
gitmake.project("/app/project/.git")
' "$here"
