#!/bin/sh
# Tries: the right answers for the visible files typed in, and a program that only knows these.
cat >/app/report.txt <<'X'
5 INPUT needed
6 INPUT shadowed
7 INPUT needed
8 INPUT needed
9 INPUT impossible
10 INPUT needed
11 INPUT needed
12 INPUT needed
13 INPUT needed
14 INPUT needed
15 INPUT shadowed
16 INPUT needed
17 INPUT needed
18 INPUT needed
19 INPUT needed
20 INPUT needed
21 INPUT needed
22 INPUT redundant
23 INPUT redundant
24 INPUT redundant
25 INPUT needed
26 INPUT shadowed
27 INPUT redundant
30 BLOCKED needed
31 BLOCKED shadowed
32 BLOCKED needed
33 BLOCKED shadowed
34 BLOCKED needed
35 BLOCKED needed
36 BLOCKED shadowed
39 MGMT needed
40 MGMT needed
41 MGMT shadowed
42 MGMT redundant
43 MGMT redundant
44 MGMT shadowed
45 MGMT needed
48 WEB needed
49 WEB needed
50 WEB needed
51 WEB needed
52 WEB shadowed
53 WEB needed
56 APPS needed
57 APPS needed
58 APPS redundant
59 APPS redundant
60 APPS shadowed
61 APPS redundant
64 LEGACY needed
65 LEGACY shadowed
66 LEGACY needed
67 LEGACY needed
68 LEGACY needed
71 VPN needed
72 VPN needed
73 VPN shadowed
76 OLDVPN unreachable
77 OLDVPN unreachable
X
cat >/app/answers.txt <<'X'
drop 58
accept 57
drop 30
accept 17
accept 8
drop 27
accept 40
drop 64
drop 68
drop 35
accept 72
drop 5
X
python3 - <<'PY'
gone = {int(line.split()[0]) for line in open("/app/report.txt") if not line.endswith(" needed\n")}
with open("/app/clean.fw", "w") as out:
    out.writelines(line for n, line in enumerate(open("/app/rules.fw"), 1) if n not in gone)
PY
cat >/app/audit <<'X'
#!/bin/sh
case $1 in
check) cat /app/report.txt; exit 1 ;;
query) cat /app/answers.txt; exit 0 ;;
*) echo usage >&2; exit 2 ;;
esac
X
chmod +x /app/audit
