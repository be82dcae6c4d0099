#!/bin/sh
# Tries: guessing the statuses from some thousand random packets instead of reasoning over all of them.
cat >/app/audit <<'PY'
#!/usr/bin/env python3
import random, sys
P = ["tcp", "udp", "icmp"]
def ip(t):
    a, b, c, d = map(int, t.split(".")); return a << 24 | b << 16 | c << 8 | d
def item(k, t):
    if k == "proto": return (P.index(t),) * 2
    if k in ("src", "dst"):
        b, _, n = t.partition("/"); return ip(b), ip(b) + (1 << 32 - int(n or 32)) - 1
    a, _, b = t.partition("-"); return int(a), int(b or a)
def load(path):
    chains, rules, default = {}, [], "drop"
    for n, l in enumerate(open(path).read().split("\n"), 1):
        w = l.split("#")[0].split()
        if not w: continue
        if w[0] == "default": default = w[1]
        elif w[0] == "chain": cur = w[1]; chains[cur] = []
        else:
            act = w.pop(0); tgt = w.pop(0) if act == "jump" else None
            c = {k: (v[0] == "!", [item(k, x) for x in v.strip("!").split(",")]) for k, v in zip(w[::2], w[1::2])}
            chains[cur].append(len(rules)); rules.append((n, cur, act, tgt, c))
    if "INPUT" not in chains: sys.exit("no INPUT")
    return default, chains, rules
def fits(c, p):
    if p["proto"] == 2 and ("sport" in c or "dport" in c): return False
    return all(any(a <= p[k] <= b for a, b in l) != neg for k, (neg, l) in c.items())
def decide(F, p, skip=-1, trail=None):
    default, chains, rules = F
    def go(ch):
        for i in chains[ch]:
            if i == skip: continue
            n, _, act, tgt, c = rules[i]
            hit = fits(c, p)
            if trail is not None: trail.append((i, hit))
            if hit:
                if act == "return": return None
                if act != "jump": return act, n
                r = go(tgt)
                if r: return r
    return go("INPUT") or (default, "default")
def query(F, path):
    for l in open(path):
        w = l.split()
        p = {"proto": P.index(w[0]), "src": ip(w[1]), "dst": ip(w[2])}
        if len(w) > 3: p["sport"], p["dport"] = int(w[3]), int(w[4])
        print(*decide(F, p))
F = load(sys.argv[2])
if sys.argv[1] == "query":
    query(F, sys.argv[3]); sys.exit(0)
rng = random.Random(1)
rules = F[2]
edge = {k: [0] for k in ("src", "dst", "sport", "dport")}
for r in rules:
    for k, (_, l) in r[4].items():
        if k != "proto":
            for a, b in l: edge[k] += [a, b, (b + 1) % (65536 if "port" in k else 2**32)]
seen, hit, need = set(), set(), set()
for _ in range(12000):
    p = {k: rng.choice(v) for k, v in edge.items()}
    p["proto"] = rng.randrange(3)
    trail = []
    v = decide(F, p, -1, trail)[0]
    for i, ok in trail:
        seen.add(i)
        if ok:
            hit.add(i)
            if i not in need and decide(F, p, i)[0] != v: need.add(i)
bad = 0
for i, r in enumerate(rules):
    c = r[4]
    s = "impossible" if c.get("proto") == (False, [(2, 2)]) and {"sport", "dport"} & c.keys() else "unreachable" if i not in seen else "shadowed" if i not in hit else "redundant" if i not in need else "needed"
    bad |= s != "needed"
    print(r[0], r[1], s)
sys.exit(bad)
PY
chmod +x /app/audit
cd /app
./audit check rules.fw >report.txt
./audit query rules.fw packets.txt >answers.txt
python3 - <<'PY'
gone = {int(line.split()[0]) for line in open("/app/report.txt") if not line.endswith(" needed\n")}
with open("/app/clean.fw", "w") as out:
    out.writelines(line for n, line in enumerate(open("/app/rules.fw"), 1) if n not in gone)
PY
