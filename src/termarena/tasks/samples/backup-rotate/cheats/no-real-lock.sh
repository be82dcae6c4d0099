#!/bin/sh
# Tries: the policy done right (GNU date and awk), but with a lock that is only looked at and never made, and without signal handling.
cat >/app/rotate.sh <<'SH'
#!/bin/sh
export LC_ALL=C
dry= D=7 W=4 M=6 T=$(date -u +%F)
num() { case $1 in '' | *[!0-9]* | ?????*) exit 2 ;; esac; }
while getopts :nd:w:m:t: o; do
    case $o in n) dry=1 ;; d) num "$OPTARG"; D=$OPTARG ;; w) num "$OPTARG"; W=$OPTARG ;; m) num "$OPTARG"; M=$OPTARG ;; t) T=$OPTARG ;; *) exit 2 ;; esac
done
shift $((OPTIND - 1))
[ $# -eq 1 ] || exit 2
case $T in 20[0-9][0-9]-[0-9][0-9]-[0-9][0-9]) ;; *) exit 2 ;; esac
[ "$(date -u -d "$T" +%F 2>/dev/null)" = "$T" ] || exit 2
case $1 in /*) d=$1 ;; *) d=./$1 ;; esac
[ -d "$d" ] || exit 3
cd "$d" || exit 3
if [ -e .rotate.lock ]; then
    p=$(cat .rotate.lock/pid 2>/dev/null)
    [ -n "$p" ] && ! kill -0 "$p" 2>/dev/null || exit 75
    rm -r .rotate.lock
fi
for f in *; do
    [ -f "$f" ] && [ ! -L "$f" ] && printf '%s\n' "$f"
done | awk -v D="$D" -v W="$W" -v M="$M" -v T="$T" '
function jd(s,  y, m, d) { y = substr(s, 1, 4) + 0; m = substr(s, 6, 2) + 0; d = substr(s, 9, 2) + 0; if (m <= 2) { y--; m += 12 } return 365*y + int(y/4) - int(y/100) + int(y/400) + int((153*(m-3)+2)/5) + d + 1 }
function mo(s) { return substr(s, 1, 4) * 12 + substr(s, 6, 2) }
function ok(s,  y, m, d) { y = substr(s, 1, 4) + 0; m = substr(s, 6, 2) + 0; d = substr(s, 9, 2) + 0; return m >= 1 && m <= 12 && d >= 1 && d <= (m == 2 ? 28 + (y % 4 == 0) : m == 4 || m == 6 || m == 9 || m == 11 ? 30 : 31) }
BEGIN { tj = jd(T); tw = int(tj / 7); tm = mo(T) }
/^[^.].*_20[0-9][0-9]-[0-9][0-9]-[0-9][0-9]\.(tar|sql)\.gz$/ {
    date = substr($0, length($0) - 16, 10); if (!ok(date) || date > T) next
    n++; name[n] = $0; s[n] = substr($0, 1, length($0) - 17) substr($0, length($0) - 6); j[n] = jd(date); w[n] = int(j[n] / 7); m[n] = mo(date)
    if (j[n] > newest[s[n]]) newest[s[n]] = j[n]
    if (j[n] > neww[s[n], w[n]]) neww[s[n], w[n]] = j[n]
    if (!((s[n], m[n]) in oldm) || j[n] < oldm[s[n], m[n]]) oldm[s[n], m[n]] = j[n]
}
END { for (i = 1; i <= n; i++) {
    r = ""
    if (tj - j[i] < D) r = r ",daily"
    if (tw - w[i] < W && j[i] == neww[s[i], w[i]]) r = r ",weekly"
    if (tm - m[i] < M && j[i] == oldm[s[i], m[i]]) r = r ",monthly"
    if (j[i] == newest[s[i]]) r = r ",latest"
    print (r == "" ? "delete\t-" : "keep\t" substr(r, 2)) "\t" name[i] } }' | {
    e=0
    while IFS= read -r l; do
        printf '%s\n' "$l"
        case $l in delete*) [ -n "$dry" ] || rm -f -- "${l#delete?-?}" || e=1 ;; esac
    done
    exit $e
}
SH
sh /app/rotate.sh -t 2024-03-10 -d 10 -w 5 -m 8 /app/backups
