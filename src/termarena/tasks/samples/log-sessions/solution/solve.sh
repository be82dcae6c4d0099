#!/bin/sh
set -eu
cat >/app/sessions.sh <<'SCRIPT'
#!/bin/sh
# sessions.sh LOG REPORT REJECTS
LC_ALL=C
export LC_ALL
if [ $# -ne 3 ]; then
    echo "usage: sessions.sh LOG REPORT REJECTS" >&2
    exit 2
fi
if [ -d "$1" ] || [ ! -r "$1" ]; then
    echo "sessions.sh: cannot read $1" >&2
    exit 1
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/sessions.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# well-formed lines become: client TAB seconds TAB status TAB bytes TAB path; others go to the rejects
awk -v rejects="$work/rejects" '
function days(y, m, d) {  # since 1 March of year 0
    if (m <= 2) { y--; m += 12 }
    return 365 * y + int(y / 4) - int(y / 100) + int(y / 400) + int((153 * (m - 3) + 2) / 5) + d
}
/^[^ ]+ [^ ]+ [^ ]+ \[[0-9][0-9]\/(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\/[0-9][0-9][0-9][0-9]:[0-9][0-9]:[0-9][0-9]:[0-9][0-9] \+0000\] "[A-Z]+ \/[^ "]* HTTP\/[0-9.]+" [0-9][0-9][0-9] ([0-9]+|-) "[^"]*" "[^"]*"$/ {
    split($0, part, " ")
    t = substr(part[4], 2)
    m = (index("JanFebMarAprMayJunJulAugSepOctNovDec", substr(t, 4, 3)) + 2) / 3
    seconds = days(substr(t, 8, 4) + 0, m, substr(t, 1, 2) + 0) * 86400 + substr(t, 13, 2) * 3600 + substr(t, 16, 2) * 60 + substr(t, 19, 2)
    iso = substr(t, 8, 4) "-" sprintf("%02d", m) "-" substr(t, 1, 2) "T" substr(t, 13, 8) "Z"
    path = part[7]
    sub(/\?.*/, "", path)
    printf "%s\t%.0f\t%s\t%s\t%s\t%s\n", part[1], seconds, iso, part[9], part[10], path
    next
}
{ print >rejects }
' <"$1" >"$work/good" || exit 1
[ -e "$work/rejects" ] || : >"$work/rejects"

tab=$(printf '\t')
sort -t "$tab" -k1,1 -k2,2n "$work/good" | awk -F '\t' '
function flush(   p, best, top) {
    if (!requests) return
    best = 0
    for (p in hits) {
        if (hits[p] > best || (hits[p] == best && ("" p) < ("" top))) { best = hits[p]; top = p }
        delete hits[p]
    }
    printf "%s\t%s\t%s\t%d\t%d\t%.0f\t%s\n", client, first, last, requests, errors, bytes, top
    requests = errors = bytes = 0
}
{
    if ("x" $1 != "x" client || $2 - before > 1800) { flush(); client = $1; first = $3 }
    before = $2; last = $3; requests++
    if ($4 + 0 >= 400) errors++
    if ($5 != "-") bytes += $5
    hits[$6]++
}
END { flush() }
' | sort -t "$tab" -k2,2 -k1,1 >"$work/report" || exit 1
cat "$work/report" >"$2" && cat "$work/rejects" >"$3"
SCRIPT
sh /app/sessions.sh /app/access.log /app/sessions.tsv /app/rejects.log
