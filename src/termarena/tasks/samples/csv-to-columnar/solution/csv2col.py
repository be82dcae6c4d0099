#!/usr/bin/env python3
"""csv2col INPUT.csv OUTPUT.tcf: see SPEC.md."""
import datetime
import os
import re
import struct
import sys
import zlib

MAGIC = b"TCF1"
GROUP = 1000
INT, DECIMAL, DATE, STRING = 1, 2, 3, 4
LOW, HIGH = -(1 << 63), (1 << 63) - 1
INT_RE = re.compile(r"(?:0|-?[1-9][0-9]*)\Z")
DEC_RE = re.compile(r"(-?(?:0|[1-9][0-9]*))(?:\.([0-9]+))?\Z")
DATE_RE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})\Z")
# a field and what ends it
FIELD_RE = re.compile(r'(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n|\n|\Z)')
EPOCH = datetime.date(1970, 1, 1).toordinal()


class Malformed(Exception):
    pass


def records(text):
    pos, end = 0, len(text)
    row = []
    while pos < end or row:
        if not row:
            if text[pos] == "\n":
                pos += 1
                continue
            if text.startswith("\r\n", pos):
                pos += 2
                continue
        m = FIELD_RE.match(text, pos)
        if not m:
            raise Malformed("bad field near character %d" % pos)
        quoted, plain, stop = m.groups()
        row.append(quoted.replace('""', '"') if quoted is not None else plain or None)
        pos = m.end()
        if stop != ",":
            yield row
            row = []


def parse(data):
    if data.startswith(b"\xef\xbb\xbf"):
        data = data[3:]
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as e:
        raise Malformed(str(e))
    rows = records(text)
    header = next(rows, None)
    if header is None:
        raise Malformed("no header")
    if not all(header) or len(set(header)) != len(header):
        raise Malformed("column names must be distinct and not empty")
    if any(len(n.encode()) > 65535 for n in header):
        raise Malformed("column name too long")
    table = list(rows)
    for row in table:
        if len(row) != len(header):
            raise Malformed("a row has %d fields, not %d" % (len(row), len(header)))
    return header, [[row[c] for row in table] for c in range(len(header))]


# Limits on the number of digits come first: a huge number need not be converted.
def as_int(text):
    if INT_RE.match(text) and len(text) <= 20 and LOW <= int(text) <= HIGH:
        return int(text)
    return None


def as_decimal(text, scale):
    whole, fraction = DEC_RE.match(text).groups()
    if len(whole) > 20:
        return None
    value = int(whole + (fraction or "").ljust(scale, "0"))
    return value if LOW <= value <= HIGH else None


def as_date(text):
    m = DATE_RE.match(text)
    try:
        return datetime.date(*map(int, m.groups())).toordinal() - EPOCH if m else None
    except ValueError:
        return None


def convert_all(function, values):
    result = {}
    for v in values:
        result[v] = function(v)
        if result[v] is None:
            return None
    return result


def typed(column):
    """The column's type, its scale and its values (None for NULL)."""
    distinct = {v for v in column if v is not None}
    if distinct:
        found = convert_all(as_int, distinct)
        if found:
            return INT, 0, [found.get(v) for v in column]
        matches = [DEC_RE.match(v) for v in distinct]
        if all(matches):
            scale = max(len(m.group(2) or "") for m in matches)
            found = convert_all(lambda v: as_decimal(v, scale), distinct) if 1 <= scale <= 9 else None
            if found:
                return DECIMAL, scale, [found.get(v) for v in column]
        found = convert_all(as_date, distinct)
        if found:
            return DATE, 0, [found.get(v) for v in column]
    return STRING, 0, [None if v is None else v.encode() for v in column]


def chunk(kind, values):
    bitmap = b""
    present = [v for v in values if v is not None]
    if len(present) < len(values):
        bits = bytearray((len(values) + 7) // 8)
        for i, v in enumerate(values):
            if v is not None:
                bits[i // 8] |= 1 << i % 8
        bitmap = bytes(bits)
    if kind != STRING:
        return bitmap + struct.pack("<%d%s" % (len(present), "i" if kind == DATE else "q"), *present)
    entries = sorted(set(present))
    number = {e: i for i, e in enumerate(entries)}
    width, code = (1, "B") if len(entries) <= 256 else (2, "H")
    parts = [bitmap, struct.pack("<I", len(entries))]
    for e in entries:
        parts += [struct.pack("<I", len(e)), e]
    parts += [bytes([width]), struct.pack("<%d%s" % (len(present), code), *[number[v] for v in present])]
    return b"".join(parts)


def encode(header, columns):
    out = bytearray(MAGIC)
    rows = len(columns[0])
    types = [typed(c) for c in columns]
    groups = range(0, rows, GROUP)
    footer = [struct.pack("<IIQ", len(header), len(groups), rows)]
    for name, (kind, scale, _) in zip(header, types):
        raw = name.encode()
        footer += [struct.pack("<H", len(raw)), raw, bytes([kind, scale])]
    for start in groups:
        footer.append(struct.pack("<I", min(GROUP, rows - start)))
        for kind, _, values in types:
            part = values[start:start + GROUP]
            data = chunk(kind, part)
            out += bytes(-len(out) % 8)
            footer.append(struct.pack("<QQII", len(out), len(data), part.count(None), zlib.crc32(data)))
            out += data
    out += bytes(-len(out) % 8)
    tail = b"".join(footer)
    return bytes(out) + tail + struct.pack("<II", zlib.crc32(tail), len(tail)) + MAGIC


def main(argv):
    if len(argv) != 3:
        raise Malformed("usage: csv2col INPUT.csv OUTPUT.tcf")
    with open(argv[1], "rb") as f:
        data = f.read()
    result = encode(*parse(data))
    part = "%s.%d.part" % (argv[2], os.getpid())
    with open(part, "xb") as f:
        f.write(result)
    os.replace(part, argv[2])


if __name__ == "__main__":
    try:
        main(sys.argv)
    except (Malformed, OSError) as e:
        print("csv2col: %s" % e, file=sys.stderr)
        sys.exit(2)
