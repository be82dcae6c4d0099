#!/bin/sh
# Tries: comparing each rule only with single earlier and later rules of its own chain, as many a quick linter does.
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
def spread(c, k):
    top = {"proto": 2, "src": 2**32 - 1, "dst": 2**32 - 1, "sport": 65535, "dport": 65535}[k]
    if k not in c: return {(0, top)}
    neg, l = c[k]
    if not neg: return set(l)
    out, s = set(), 0
    for a, b in sorted(l):
        if a > s: out.add((s, a - 1))
        s = max(s, b + 1)
    return out | ({(s, top)} if s <= top else set())
def covers(a, b):
    if ({"sport", "dport"} & a.keys()) and not ({"sport", "dport"} & b.keys()): return False
    return all(all(any(x <= u and v <= y for x, y in spread(a, k)) for u, v in spread(b, k)) for k in ("proto", "src", "dst", "sport", "dport"))
F = load(sys.argv[2])
if sys.argv[1] == "query":
    query(F, sys.argv[3]); sys.exit(0)
default, chains, rules = F
called = {"INPUT"} | {r[3] for r in rules}
bad = 0
for i, (n, ch, act, tgt, c) in enumerate(rules):
    mine = [j for j in chains[ch]]
    before = [rules[j] for j in mine if j < i]; after = [rules[j] for j in mine if j > i]
    s = "needed"
    if any(not spread(c, k) for k in c) or ({"sport", "dport"} & c.keys() and c.get("proto") == (False, [(2, 2)])): s = "impossible"
    elif ch not in called or any(not b[4] and b[2] != "jump" for b in before): s = "unreachable"
    elif any(b[2] != "jump" and covers(b[4], c) for b in before): s = "shadowed"
    elif act in ("accept", "drop"):
        for b in after + [(0, ch, default, None, {})] * (ch == "INPUT"):
            if b[2] == act and covers(b[4], c): s = "redundant"; break
            if b[2] != act: break
    bad |= s != "needed"
    print(n, ch, s)
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
