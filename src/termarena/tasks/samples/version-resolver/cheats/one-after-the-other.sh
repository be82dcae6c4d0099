#!/bin/sh
# Tries a plain search that steps back one choice at a time: right on small indexes, but it never ends on large ones.
cat >/app/resolve <<'PY'
#!/usr/bin/env python3
import json, os, re, sys
sys.setrecursionlimit(10000)
NAME = r"[a-z0-9]+(?:-[a-z0-9]+)*"
ID = r"(?:0|[1-9][0-9]*|[0-9]*[A-Za-z][0-9A-Za-z]*)"
VER = r"(?:0|[1-9][0-9]*)(?:\.(?:0|[1-9][0-9]*)){2}(?:-%s(?:\.%s)*)?" % (ID, ID)
CON = r"(?:==|!=|>=|<=|~=|>|<)[ \t]*" + VER
REQ = re.compile(r"({n})[ \t]*(?:\[[ \t]*({n}(?:[ \t]*,[ \t]*{n})*)[ \t]*\][ \t]*)?((?:{c}(?:[ \t]*,[ \t]*{c})*)?)".format(n=NAME, c=CON))
cache = {}
def key(v):
    if v not in cache:
        n, _, p = v.partition("-")
        cache[v] = [int(x) for x in n.split(".")], not p, [(0, int(x), "") if x.isdigit() else (1, 0, x) for x in p.split(".") if x]
    return cache[v]
def parse(t):
    m = REQ.fullmatch(t.strip(" \t"))
    return m[1], set(re.findall(NAME, m[2] or "")), re.findall(r"(==|!=|>=|<=|~=|>|<)[ \t]*(%s)" % VER, m[3])
def ok(cs, v):
    a = key(v)
    for op, w in cs:
        b = key(w)
        if not {"==": a == b, "!=": a != b, ">=": a >= b, "<=": a <= b, ">": a > b, "<": a < b, "~=": a >= b and a[0][:2] == b[0][:2]}[op]:
            return False
    return True
def load(n):
    p = "%s/%s.json" % (sys.argv[1], n)
    vs = json.load(open(p))["versions"] if os.path.exists(p) else {}
    return {v: {"requires": [parse(t) for t in e.get("requires", [])], "conflicts": [parse(t) for t in e.get("conflicts", [])],
                "extras": {x: [parse(t) for t in ts] for x, ts in e.get("extras", {}).items()}, "yanked": e.get("yanked")} for v, e in vs.items()}
packages = {}
def solve(mine):
    def versions(n):
        if n not in packages:
            packages[n] = load(n)
        vs = packages[n]
        cs = [c for m, _, x in mine if m == n for c in x]
        pre = any("-" in w for _, w in cs) or all("-" in v or e["yanked"] for v, e in vs.items())
        return sorted((v for v, e in vs.items() if (pre or "-" not in v) and (not e["yanked"] or ("==", v) in cs)), key=key, reverse=True)
    def search(lock):
        todo, seen, extras, asked = list(mine), set(), {}, set()
        while todo:
            n, x, c = todo.pop()
            asked.add(n)
            new = x - extras.setdefault(n, set())
            extras[n] |= new
            if n in lock:
                e = packages[n][lock[n]]
                if not ok(c, lock[n]) or not x <= set(e["extras"]):
                    return None
                if n not in seen:
                    seen.add(n)
                    todo += e["requires"]
                for k in new:
                    todo += e["extras"][k]
        for n in lock:
            for o, _, c in packages[n][lock[n]]["conflicts"]:
                if o in lock and ok(c, lock[o]):
                    return None
        left = sorted(asked - set(lock))
        if not left:
            return lock, extras
        for v in versions(left[0]):
            found = search({**lock, left[0]: v})
            if found:
                return found
        return None
    return search({})
lines = []
for i, t in enumerate(open(sys.argv[2]).read().split("\n"), 1):
    t = t.strip(" \t")
    if t and t[0] != "#":
        if not REQ.fullmatch(t):
            print("line %d: not understood" % i, file=sys.stderr)
            lines.append(None)
        lines.append(t)
if None in lines:
    sys.exit(2)
found = solve([parse(t) for t in lines])
if found:
    lock, extras = found
    out, status = ["%s%s==%s" % (n, "[%s]" % ",".join(sorted(extras[n])) if extras[n] else "", lock[n]) for n in sorted(lock)], 0
else:
    i = 0
    while i < len(lines):
        if solve([parse(t) for t in lines[:i] + lines[i + 1:]]):
            i += 1
        else:
            del lines[i]
    out, status = ["conflict"] + lines, 1
open(sys.argv[3], "w").write("".join(l + "\n" for l in out))
sys.exit(status)
PY
chmod 755 /app/resolve
/app/resolve /app/index /app/requirements.txt /app/lock.txt
