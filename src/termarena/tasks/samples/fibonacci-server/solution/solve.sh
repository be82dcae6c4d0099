#!/bin/sh
set -eu
here=$(dirname "$0")
cp "$here/server.py" /app/server.py
# Deaf to the hang-up signal and with no open files of this shell: it outlives it.
nohup python3 /app/server.py </dev/null >/app/server.log 2>&1 &
i=0
until python3 -c 'import socket; socket.create_connection(("127.0.0.1", 3000), 1).close()' 2>/dev/null; do
    i=$((i + 1))
    [ "$i" -lt 100 ] || { echo 'the server did not start' >&2; exit 1; }
    sleep 0.1
done
