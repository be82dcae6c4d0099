#!/bin/sh
# Tries: the classic clean-up by age; judges by file times instead of the dates in the names.
cat >/app/rotate.sh <<'SH'
#!/bin/sh
dry= days=7
while getopts nd:w:m:t: o; do
    case $o in n) dry=1 ;; d) days=$OPTARG ;; w | m | t) ;; *) exit 2 ;; esac
done
shift $((OPTIND - 1))
[ $# -eq 1 ] || exit 2
[ -d "$1" ] || exit 3
mkdir "$1/.rotate.lock" 2>/dev/null || exit 75
trap 'rmdir "$1/.rotate.lock"' EXIT
cd "$1"
for f in *_????-??-??.tar.gz *_????-??-??.sql.gz; do
    [ -f "$f" ] || continue
    if [ $((($(date +%s) - $(stat -c %Y "./$f")) / 86400)) -gt "$days" ]; then
        printf 'delete\t-\t%s\n' "$f"
        [ -n "$dry" ] || rm -- "$f"
    else
        printf 'keep\tdaily\t%s\n' "$f"
    fi
done
SH
sh /app/rotate.sh -t 2024-03-10 -d 10 -w 5 -m 8 /app/backups
