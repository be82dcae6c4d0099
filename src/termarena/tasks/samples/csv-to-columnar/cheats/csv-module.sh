#!/bin/sh
# Tries a complete converter on top of Python's csv module and int()/float(): it cannot tell NULL from "" and forgives malformed input.
cat >/app/csv2col <<'PY'
#!/usr/bin/env python3
import csv, datetime, struct, sys, zlib
from decimal import Decimal
with open(sys.argv[1], encoding="utf-8-sig", newline="") as f:
    rows = [r for r in csv.reader(f) if r]
head, rows = rows[0], rows[1:]
def typed(col):
    vals = [v for v in col if v]
    try:
        if vals and not any(v[0] == "0" and v != "0" for v in vals):
            ints = [int(v) for v in vals]
            return 1, 0, [int(v) if v else None for v in col]
    except ValueError:
        pass
    try:
        if vals and not any(v[0] == "0" and v[1:2] not in ("", ".") for v in vals):
            scale = max(-Decimal(v).as_tuple().exponent for v in vals)
            return 2, scale, [int(Decimal(v).scaleb(scale)) if v else None for v in col]
    except Exception:
        pass
    try:
        if vals:
            epoch = datetime.date(1970, 1, 1)
            return 3, 0, [(datetime.date.fromisoformat(v) - epoch).days if v else None for v in col]
    except ValueError:
        pass
    return 4, 0, [v.encode() if v else None for v in col]
def chunk(kind, vals):
    out = b""
    here = [v for v in vals if v is not None]
    if len(here) < len(vals):
        bits = bytearray((len(vals) + 7) // 8)
        for i, v in enumerate(vals):
            if v is not None:
                bits[i >> 3] |= 1 << (i & 7)
        out = bytes(bits)
    if kind == 4:
        words = sorted(set(here))
        out += struct.pack("<I", len(words)) + b"".join(struct.pack("<I", len(w)) + w for w in words)
        w = 1 if len(words) <= 256 else 2
        at = {x: i for i, x in enumerate(words)}
        return out + bytes([w]) + b"".join(at[v].to_bytes(w, "little") for v in here)
    return out + b"".join(struct.pack("<i" if kind == 3 else "<q", v) for v in here)
cols = [typed(list(c)) for c in zip(*rows)] if rows else [(4, 0, [])] * len(head)
out = bytearray(b"TCF1")
foot = struct.pack("<IIQ", len(head), (len(rows) + 999) // 1000, len(rows))
for n, c in zip(head, cols):
    foot += struct.pack("<H", len(n.encode())) + n.encode() + bytes(c[:2])
for s in range(0, len(rows), 1000):
    foot += struct.pack("<I", min(1000, len(rows) - s))
    for kind, _, vals in cols:
        part = vals[s:s + 1000]
        data = chunk(kind, part)
        out += bytes(-len(out) % 8)
        foot += struct.pack("<QQII", len(out), len(data), part.count(None), zlib.crc32(data))
        out += data
out += bytes(-len(out) % 8)
with open(sys.argv[2], "wb") as f:
    f.write(out + foot + struct.pack("<II", zlib.crc32(foot), len(foot)) + b"TCF1")
PY
chmod 755 /app/csv2col
/app/csv2col /app/data/orders.csv /app/data/orders.tcf
