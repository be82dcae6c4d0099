#!/bin/sh
# Tries the greatest version that fits what is known so far, without ever going back; if that fails it blames all lines.
cat >/app/resolve <<'PY'
#!/usr/bin/env python3
import json, os, re, sys
def key(v):
    n, _, p = v.partition("-")
    return [int(x) for x in n.split(".")], not p, [(0, int(x), "") if x.isdigit() else (1, 0, x) for x in p.split(".") if x]
def parse(t):
    m = re.fullmatch(r"([a-z0-9]+(?:-[a-z0-9]+)*)(?:\[([a-z0-9,-]+)\])?((?:(?:[=!<>~]=|[<>])\d+\.\d+\.\d+(?:-[0-9A-Za-z.]+)?,?)*)", re.sub(r"[ \t]", "", t))
    return m[1], set((m[2] or "").split(",")) - {""}, re.findall(r"([=!<>~]=|[<>])([^,]+)", m[3])
def ok(cs, v):
    a = key(v)
    for op, w in cs:
        b = key(w)
        if not {"==": a == b, "!=": a != b, ">=": a >= b, "<=": a <= b, ">": a > b, "<": a < b, "~=": a >= b and a[0][:2] == b[0][:2]}[op]:
            return False
    return True
index, wanted, output = sys.argv[1:]
lines = []
for i, t in enumerate(open(wanted).read().split("\n"), 1):
    t = t.strip(" \t")
    if t and t[0] != "#":
        try:
            parse(t)
        except TypeError:
            print("line %d: not understood" % i, file=sys.stderr)
            lines.append(None)
        lines.append(t)
if None in lines:
    sys.exit(2)
mine = [parse(t) for t in lines]
def versions(n):
    p = "%s/%s.json" % (index, n)
    vs = json.load(open(p))["versions"] if os.path.exists(p) else {}
    cs = [c for m, _, x in mine if m == n for c in x]
    pre = any("-" in w for _, w in cs) or all("-" in v or e.get("yanked") for v, e in vs.items())
    return {v: e for v, e in vs.items() if (pre or "-" not in v) and (not e.get("yanked") or ("==", v) in cs)}
lock, data = {}, {}
while True:
    todo, seen, extras, asked = list(mine), set(), {}, {}
    while todo:
        n, x, c = todo.pop()
        asked.setdefault(n, []).append(c)
        new = x - extras.setdefault(n, set())
        extras[n] |= new
        if n in lock:
            e = data[n][lock[n]]
            if n not in seen:
                seen.add(n)
                todo += [parse(t) for t in e.get("requires", [])]
            for k in new:
                todo += [parse(t) for t in e.get("extras", {}).get(k, [])]
    left = sorted(set(asked) - set(lock))
    if not left:
        break
    n = left[0]
    data[n] = versions(n)
    fit = [v for v, e in data[n].items() if all(ok(c, v) for c in asked[n]) and extras[n] <= set(e.get("extras", {}))
           and not any(o in lock and ok(c, lock[o]) for o, _, c in map(parse, e.get("conflicts", [])))]
    if not fit:
        open(output, "w").write("\n".join(["conflict"] + lines) + "\n")
        sys.exit(1)
    lock[n] = max(fit, key=key)
open(output, "w").write("".join("%s%s==%s\n" % (n, "[%s]" % ",".join(sorted(extras[n])) if extras[n] else "", lock[n]) for n in sorted(lock)))
PY
chmod 755 /app/resolve
/app/resolve /app/index /app/requirements.txt /app/lock.txt
