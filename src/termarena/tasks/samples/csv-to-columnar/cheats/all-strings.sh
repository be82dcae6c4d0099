#!/bin/sh
# Tries a sound container in which every column is a STRING, so that no types need to be found.
cat >/app/csv2col <<'PY'
#!/usr/bin/env python3
import re, struct, sys, zlib
try:
    text = open(sys.argv[1], "rb").read().decode("utf-8-sig")
    rows, row, pos = [], [], 0
    field = re.compile(r'(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n|\n|\Z)')
    while pos < len(text) or row:
        if not row and (m := re.compile(r"\r?\n").match(text, pos)):
            pos = m.end()
            continue
        m = field.match(text, pos)
        row.append(m[1].replace('""', '"') if m[1] is not None else m[2] or None)
        pos = m.end()
        if m[3] != ",":
            rows.append(row)
            row = []
    head = rows.pop(0)
    assert all(head) and len(set(head)) == len(head) and all(len(r) == len(head) for r in rows)
except Exception as e:
    sys.exit((print(e, file=sys.stderr), 2)[1])
out = bytearray(b"TCF1")
foot = struct.pack("<IIQ", len(head), (len(rows) + 999) // 1000, len(rows))
for n in head:
    foot += struct.pack("<H", len(n.encode())) + n.encode() + b"\4\0"
for s in range(0, len(rows), 1000):
    group = rows[s:s + 1000]
    foot += struct.pack("<I", len(group))
    for c in range(len(head)):
        vals = [r[c] and r[c].encode() if r[c] != "" else b"" for r in group]
        data, nulls = b"", vals.count(None)
        if nulls:
            bits = sum(1 << i for i, v in enumerate(vals) if v is not None)
            data = bits.to_bytes((len(vals) + 7) // 8, "little")
        words = sorted({v for v in vals if v is not None})
        w = 1 if len(words) <= 256 else 2
        data += struct.pack("<I", len(words)) + b"".join(struct.pack("<I", len(x)) + x for x in words) + bytes([w])
        data += b"".join(words.index(v).to_bytes(w, "little") for v in vals if v is not None)
        out += bytes(-len(out) % 8)
        foot += struct.pack("<QQII", len(out), len(data), nulls, zlib.crc32(data))
        out += data
out += bytes(-len(out) % 8)
open(sys.argv[2], "wb").write(out + foot + struct.pack("<II", zlib.crc32(foot), len(foot)) + b"TCF1")
PY
chmod 755 /app/csv2col
/app/csv2col /app/data/orders.csv /app/data/orders.tcf
