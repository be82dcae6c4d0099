#!/bin/sh
# Tries: one awk pass in the order of the file, as if the log were sorted and file names were plain.
cat >/app/sessions.sh <<'SH'
#!/bin/sh
[ $# -eq 3 ] || exit 2
[ -f "$1" ] && [ -r "$1" ] || exit 1
: >"$2"; : >"$3"
awk -v bad="$3" '
function days(y, m, d) { if (m <= 2) { y--; m += 12 } return 365*y + int(y/4) - int(y/100) + int(y/400) + int((153*(m-3)+2)/5) + d }
function out(c,  p, top, best) {
    best = 0
    for (p in hit) { split(p, q, SUBSEP); if (q[1] == c) { if (hit[p] > best || (hit[p] == best && q[2] < top)) { best = hit[p]; top = q[2] } delete hit[p] } }
    printf "%s\t%s\t%s\t%d\t%d\t%.0f\t%s\n", c, first[c], last[c], n[c], err[c], size[c], top
    n[c] = err[c] = size[c] = 0
}
/^[^ ]+ [^ ]+ [^ ]+ \[[0-9][0-9]\/(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\/[0-9][0-9][0-9][0-9]:[0-9][0-9]:[0-9][0-9]:[0-9][0-9] \+0000\] "[A-Z]+ \/[^ "]* HTTP\/[0-9.]+" [0-9][0-9][0-9] ([0-9]+|-) "[^"]*" "[^"]*"$/ {
    t = substr($4, 2); m = (index("JanFebMarAprMayJunJulAugSepOctNovDec", substr(t, 4, 3)) + 2) / 3
    s = days(substr(t, 8, 4), m, substr(t, 1, 2)) * 86400 + substr(t, 13, 2) * 3600 + substr(t, 16, 2) * 60 + substr(t, 19, 2)
    iso = substr(t, 8, 4) "-" sprintf("%02d", m) "-" substr(t, 1, 2) "T" substr(t, 13, 8) "Z"
    if (n[$1] && s - before[$1] > 1800) out($1)
    if (!n[$1]) first[$1] = iso
    n[$1]++; last[$1] = iso; before[$1] = s
    if ($9 >= 400) err[$1]++
    if ($10 != "-") size[$1] += $10
    split($7, u, "?"); hit[$1, u[1]]++
    next
}
{ print >bad }
END { for (c in n) if (n[c]) out(c) }
' "$1" | LC_ALL=C sort -t "$(printf '\t')" -k2,2 -k1,1 >"$2"
SH
sh /app/sessions.sh /app/access.log /app/sessions.tsv /app/rejects.log
