#!/bin/sh
# Tries a plain linear model on the readings, the first thing in every tutorial.
cat >/app/classify <<'PY'
#!/usr/bin/env python3
import csv, math, sys
NAMES = ["temperature", "pressure", "vibration", "humidity", "speed"]
def value(n, t):
    if t in ("", "NA", "-999"):
        return None
    if n == "temperature":
        return (float(t[:-1]) - 32) * 5 / 9 if t[-1] == "F" else float(t[:-1])
    return float(t)
train = list(csv.DictReader(open("/app/data/train.csv")))
stat = {}
for n in NAMES:
    v = [x for x in (value(n, r[n]) for r in train) if x is not None]
    m = sum(v) / len(v)
    stat[n] = m, math.sqrt(sum((x - m) ** 2 for x in v) / len(v))
def row(r):
    out = [1.0]
    for n in NAMES:
        x = value(n, r[n])
        out.append(0.0 if x is None else (x - stat[n][0]) / stat[n][1])
    return out
X, Y = [row(r) for r in train], [int(r["label"]) for r in train]
w = [0.0] * 6
for _ in range(60):
    g = [0.0] * 6
    for x, y in zip(X, Y):
        e = 1 / (1 + math.exp(-sum(a * b for a, b in zip(w, x)))) - y
        for j in range(6):
            g[j] += e * x[j]
    w = [a - 0.5 * b / len(X) for a, b in zip(w, g)]
with open(sys.argv[2], "w") as out:
    out.write("id,label\n")
    for r in csv.DictReader(open(sys.argv[1])):
        out.write("%s,%d\n" % (r["id"], sum(a * b for a, b in zip(w, row(r))) > 0))
PY
chmod 755 /app/classify
/app/classify /app/data/test.csv /app/predictions.csv
