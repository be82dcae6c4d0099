"""Grades the CSV to TCF1 converter with a reader of its own."""
import datetime
import hashlib
import os
import struct
import subprocess
import time
import unittest
import zlib

import guard

PROGRAM = "/app/csv2col"
INT, DECIMAL, DATE, STRING = 1, 2, 3, 4
DIGESTS = {
    "/app/SPEC.md": "d33475611a43b01bc562cef8784f670a787ac270b35a7dec87bcbf0777e1edba",
    "/app/data/orders.csv": "c0154ee7b18e26b2a5c287426b23a2553519186b123a0fe64a273c16243345f2",
    "/app/data/orders.tcf": "186d4a3e57489e1e2d7f73659616a8bfe20f5719e885289dc08404619a281e68",
}
EXAMPLE = bytes.fromhex(
    "54434631000000000100000000000000020000000000000003000000000000000302000000000000000200000061620101000000000000003200000000000000"
    "d4feffffffffffffc9040000000000000300000001000000030000000000000002006964010004006e616d650400050070726963650202030000000800000000"
    "000000180000000000000000000000878dcb2b20000000000000001200000000000000010000006d90f35a380000000000000018000000000000000000000075"
    "f990098c71ef6c7300000054434631"
)


class Bad(Exception):
    """The file breaks the specification."""


class Cursor:
    def __init__(self, data, what):
        self.data, self.pos, self.what = data, 0, what

    def take(self, n):
        if self.pos + n > len(self.data):
            raise Bad("%s ends too early" % self.what)
        self.pos += n
        return self.data[self.pos - n:self.pos]

    def number(self, code):
        return struct.unpack("<" + code, self.take(struct.calcsize("<" + code)))[0]

    def finish(self):
        if self.pos != len(self.data):
            raise Bad("%s has %d bytes too many" % (self.what, len(self.data) - self.pos))


def read_chunk(data, kind, rows, nulls, what):
    c = Cursor(data, what)
    present = [True] * rows
    if nulls:
        bits = c.take((rows + 7) // 8)
        flat = [bool(b >> i & 1) for b in bits for i in range(8)]
        if any(flat[rows:]):
            raise Bad("%s: spare bits are set" % what)
        present = flat[:rows]
    if present.count(False) != nulls:
        raise Bad("%s: NULL count and bitmap disagree" % what)
    count = rows - nulls
    if kind == STRING:
        entries = [c.take(c.number("I")) for _ in range(c.number("I"))]
        if any(a >= b for a, b in zip(entries, entries[1:])):
            raise Bad("%s: dictionary is not in strictly ascending order" % what)
        width = c.number("B")
        if width != (1 if len(entries) <= 256 else 2):
            raise Bad("%s: index width %d for %d entries" % (what, width, len(entries)))
        indexes = [c.number("B" if width == 1 else "H") for _ in range(count)]
        if set(indexes) != set(range(len(entries))):
            raise Bad("%s: entries without use, or use of entries that are not there" % what)
        values = [entries[i].decode("utf-8") for i in indexes]
    else:
        values = [c.number("i" if kind == DATE else "q") for _ in range(count)]
    c.finish()
    it = iter(values)
    return [next(it) if p else None for p in present]


def read_tcf(data):
    """Names, (type, scale) of each column, and the columns' values."""
    if len(data) < 32 or data[:4] != b"TCF1" or data[-4:] != b"TCF1":
        raise Bad("no magic at both ends")
    crc, length = struct.unpack("<II", data[-12:-4])
    start = len(data) - 12 - length
    if start < 8 or start % 8:
        raise Bad("footer length %d does not fit" % length)
    footer = data[start:-12]
    if zlib.crc32(footer) != crc:
        raise Bad("CRC of the footer")
    f = Cursor(footer, "footer")
    columns, groups, rows = f.number("I"), f.number("I"), f.number("Q")
    names, kinds = [], []
    for _ in range(columns):
        names.append(f.take(f.number("H")).decode("utf-8"))
        kinds.append((f.number("B"), f.number("B")))
    if groups != (rows + 999) // 1000:
        raise Bad("%d groups for %d rows" % (groups, rows))
    values = [[] for _ in names]
    at = 4
    for g in range(groups):
        here = f.number("I")
        if here != min(1000, rows - 1000 * g):
            raise Bad("group %d has %d rows" % (g, here))
        for i, (kind, _) in enumerate(kinds):
            what = "chunk %r of group %d" % (names[i], g)
            offset, size, nulls, crc = f.number("Q"), f.number("Q"), f.number("I"), f.number("I")
            if offset != (at + 7) // 8 * 8 or any(data[at:offset]):
                raise Bad("%s starts at %d or has bad padding before it" % (what, offset))
            at = offset + size
            if at > start:
                raise Bad("%s runs into the footer" % what)
            if zlib.crc32(data[offset:at]) != crc:
                raise Bad("CRC of %s" % what)
            if kind not in (INT, DECIMAL, DATE, STRING):
                raise Bad("type code %d" % kind)
            values[i] += read_chunk(data[offset:at], kind, here, nulls, what)
    f.finish()
    if start != (at + 7) // 8 * 8 or any(data[at:start]):
        raise Bad("footer starts at %d or has bad padding before it" % start)
    return names, kinds, values


def days(text):
    return (datetime.date(*map(int, text.split("-"))) - datetime.date(1970, 1, 1)).days


class Lcg:
    def __init__(self, seed):
        self.state = seed

    def __call__(self, n):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        return (self.state >> 33) % n


def digest(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def setUpModule():
    if not os.access(PROGRAM, os.X_OK):
        raise AssertionError("no program %s" % PROGRAM)
    if digest("/app/data/orders.tcf") != DIGESTS["/app/data/orders.tcf"]:
        raise AssertionError("/app/data/orders.tcf is not the converted table: the rest is not looked at")


class Case(unittest.TestCase):
    def same(self, got, want):
        """Like assertEqual, but never works out a long difference."""
        if got != want:
            self.fail("got %.300r, not %.300r" % (got, want))

    def setUp(self):
        os.umask(0o022)
        self.dir = guard.folder(self)

    def run_program(self, source, target, timeout=15):
        return subprocess.run([PROGRAM, source, target], cwd=self.dir, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout, **guard.WHO)

    def convert(self, text):
        source, target = os.path.join(self.dir, "in.csv"), os.path.join(self.dir, "out.tcf")
        with open(source, "wb") as f:
            f.write(text if isinstance(text, bytes) else text.encode("utf-8"))
        done = self.run_program(source, target)
        self.assertEqual(done.returncode, 0, "exit status; standard error: %r" % done.stderr[-500:])
        with open(target, "rb") as f:
            return f.read()

    def table(self, text):
        return read_tcf(self.convert(text))

    def columns(self, *cases):
        """Several columns in one table: as each stands in the CSV, and its type, scale and values. Short ones begin anew."""
        rows = max(len(texts) for texts, _ in cases)
        filled = [[texts[i % len(texts)] for i in range(rows)] for texts, _ in cases]
        lines = [",".join(["k", *("c%d" % i for i in range(len(cases)))])] + [",".join(["r", *line]) for line in zip(*filled)]
        names, kinds, columns = self.table("\n".join(lines) + "\n")
        self.assertEqual(names, lines[0].split(","))
        self.assertEqual(kinds[0], (STRING, 0))
        self.same(columns[0], ["r"] * rows)
        for (texts, (kind, scale, values)), got, column in zip(cases, kinds[1:], columns[1:]):
            with self.subTest(texts[:8]):
                self.assertEqual(got, (kind, scale))
                self.same(column, [values[i % len(values)] for i in range(rows)])


class Delivered(unittest.TestCase):
    def test_specification_and_input_are_unchanged(self):
        for path in ("/app/SPEC.md", "/app/data/orders.csv"):
            self.assertEqual(digest(path), DIGESTS[path], path)


class Csv(Case):
    def test_example_of_the_specification_byte_for_byte(self):
        self.same(self.convert('id,name,price\n1,ab,0.5\n2,"",-3\n3,,12.25\n').hex(), EXAMPLE.hex())

    def test_quoted_commas_quotes_and_line_ends(self):
        names, kinds, columns = self.table('"a,""b""\n",c\r\n"1,2","x\r\ny"\n"""",z\r\n"\n\n",""""""\n')
        self.same(names, ['a,"b"\n', "c"])
        self.same(columns, [["1,2", '"', "\n\n"], ["x\r\ny", "z", '""']])

    def test_values_are_taken_as_they_stand(self):
        separators = ["a\u2028b", "c\x0bd", "e\x85f", "g\x0c"]
        self.columns(
            (["", '""', "x", '""', ""], (STRING, 0, [None, "", "x", "", None])),
            (["1", '""', ""], (STRING, 0, ["1", "", None])),
            (['"12"', "", "7"], (INT, 0, [12, None, 7])),
            ([" 1", "2 ", '" "', "\t"], (STRING, 0, [" 1", "2 ", " ", "\t"])),
            (separators, (STRING, 0, separators)),
            (["", "", ""], (STRING, 0, [None, None, None])),
        )

    def test_blank_lines_are_skipped_and_a_quoted_empty_line_is_a_row(self):
        self.same(self.table('\n\r\na\n\n""\n\r\n\nx\n\n'), (["a"], [(STRING, 0)], [["", "x"]]))

    def test_byte_order_mark_and_missing_last_line_end(self):
        self.same(self.table(b'\xef\xbb\xbf"a",b\n1,'), (["a", "b"], [(INT, 0), (STRING, 0)], [[1], [None]]))

    def test_line_of_commas_is_a_row_of_nulls(self):
        self.same(self.table("a,b,c\n,,\n1,2,3\n,,")[2], [[None, 1, None], [None, 2, None], [None, 3, None]])

    def test_names_of_files_and_of_columns(self):
        source, target = os.path.join(self.dir, "my table.csv"), os.path.join(self.dir, "my table.tcf")
        with open(source, "wb") as f:
            f.write("gr\u00f6\u00dfe,\u6f22\u5b57\n5,\n".encode("utf-8"))
        with open(target, "w") as f:
            f.write("old content " * 100)
        guard.give(target)
        self.assertEqual(self.run_program(source, target).returncode, 0)
        with open(target, "rb") as f:
            self.same(read_tcf(f.read()), (["gr\u00f6\u00dfe", "\u6f22\u5b57"], [(INT, 0), (STRING, 0)], [[5], [None]]))


class Types(Case):
    def test_ints(self):
        big, small = 2**63 - 1, -(2**63)
        texts = [[str(big + 1), "1"], [str(small - 1)], ["9" * 6000, "1"]]
        texts += [[v, "5"] for v in ("007", "-0", "+5", "1_000", "1e3", "\u0663", "\uff11", "0x10", "--1", "-", "2023-01-01")]
        self.columns(([str(big), str(small), "0"], (INT, 0, [big, small, 0])), *((t, (STRING, 0, t)) for t in texts))

    def test_decimals(self):
        strings = [["9223372036.854775808"], ["0.1234567890", "1"], ["0.50", "922337203685477580"], ["1.5", "2023-01-01"]]
        odd = (".5", "5.", "01.5", "1.5e3", "+1.5", "1,5", "1.5.1", "inf", "nan", "1.\u0665", "1_0.5")
        self.columns(
            (["1.5", "-2", "0.125", "-0.0", "", "10.10"], (DECIMAL, 3, [1500, -2000, 125, 0, None, 10100])),
            (["-0.05", "-0", "-1.999"], (DECIMAL, 3, [-50, 0, -1999])),
            (["9007199254740993.01", "0.29"], (DECIMAL, 2, [900719925474099301, 29])),
            (["9223372036.854775807", "-9223372036.854775808"], (DECIMAL, 9, [2**63 - 1, -(2**63)])),
            (["0.5", "922337203685477580"], (DECIMAL, 1, [5, 9223372036854775800])),
            *((texts, (STRING, 0, texts)) for texts in strings),
            *((['"%s"' % v, "2.5"], (STRING, 0, [v, "2.5"])) for v in odd),
        )

    def test_dates(self):
        texts = ["1970-01-01", "1969-12-31", "2000-02-29", "0001-01-01", "9999-12-31", "1582-10-10"]
        odd = ("2023-02-29", "1900-02-29", "0000-01-01", "2023-13-01", "2023-1-01", "20230101", "2023-01-01 ", "2023-W01-1", "2023-00-10",
               "202\u0663-01-01")
        self.columns((texts, (DATE, 0, [days(t) for t in texts])), *(([v, "2023-01-01"], (STRING, 0, [v, "2023-01-01"])) for v in odd))


class Layout(Case):
    def test_no_rows(self):
        self.same(self.table("a,b\n"), (["a", "b"], [(STRING, 0)] * 2, [[], []]))

    def test_edges_of_groups_and_of_bitmaps(self):
        for rows in (8, 9, 1001, 2000):
            with self.subTest(rows=rows):
                last = list(range(rows - 1)) + [None]
                self.columns(([str(i) for i in range(rows)], (INT, 0, list(range(rows)))),
                             (["x%s" % i for i in last[:-1]] + [""], (STRING, 0, ["x%s" % i for i in last[:-1]] + [None])))

    def test_types_are_decided_over_all_groups(self):
        texts = [str(i) for i in range(2600)]
        texts[2555] = "n/a"
        decimals = ["%d.5" % i for i in range(2600)]
        decimals[1400] = "3.1415"
        nulls = ["" if 1000 <= i < 2000 and i % 3 else str(i) for i in range(2600)]
        gap = ["" if 1000 <= i < 2000 else "v%d" % (i % 5) for i in range(2600)]
        self.columns(
            (texts, (STRING, 0, texts)),
            (decimals, (DECIMAL, 4, [31415 if i == 1400 else i * 10000 + 5000 for i in range(2600)])),
            (nulls, (INT, 0, [int(t) if t else None for t in nulls])),
            (gap, (STRING, 0, [t or None for t in gap])),
        )

    def test_dictionary_widths(self):
        texts = [["s%d" % (i * 7 % distinct) for i in range(1000)] for distinct in (1, 255, 256, 257, 1000)]
        self.columns(*((t, (STRING, 0, t)) for t in texts))

    def test_dictionary_order_is_that_of_bytes(self):
        texts = ["b", "a", "B", "ab", "\u00e9", "\uffff", "\U0001f600", "~", "z", "", "\x01"]
        self.columns((['"%s"' % t for t in texts], (STRING, 0, texts)))

    def test_long_names_and_values(self):
        name, value = "n" * 65535, "v" * 200000
        self.same(self.table("%s\n%s\n" % (name, value)), ([name], [(STRING, 0)], [[value]]))

    def test_large_table_in_time(self):
        rnd = Lcg(4711)
        words = ["w%d" % i for i in range(700)] + ["a,b", 'q"q', "l\nl", "caf\u00e9", "0"]
        table = [[] for _ in range(8)]
        lines = ["i,d,t,s,u,sparse,mixed,big\n"]
        drawn = []
        for _ in range(1500):
            amount, day, word = rnd(10**7) - 5 * 10**6, rnd(40000) - 10000, words[rnd(len(words))]
            date = (datetime.date(1970, 1, 1) + datetime.timedelta(days=day)).isoformat()
            sparse = rnd(100) if rnd(10) == 0 else None
            mixed = None if rnd(4) == 0 else "" if rnd(9) == 0 else str(rnd(50))
            big = rnd(2**31) * rnd(2**31) - 2**60
            quoted = '"%s"' % word.replace('"', '""')
            before = ",%s%d.%02d,%s,%s,u" % ("-" if amount < 0 else "", abs(amount) // 100, abs(amount) % 100, date, quoted)
            after = ",%s,%s,%d\n" % ("" if sparse is None else sparse, "" if mixed is None else '"%s"' % mixed, big)
            drawn.append(((amount, day, word), (sparse, mixed, big), before, after))
        for i in range(20000):
            left, right, before, after = drawn[i % len(drawn)]
            for column, v in zip(table, (i, *left, "u%d" % i, *right)):
                column.append(v)
            lines.append("%d%s%d%s" % (i, before, i, after))
        started = time.monotonic()
        data = self.convert("".join(lines))
        self.assertLess(time.monotonic() - started, 10)
        names, kinds, columns = read_tcf(data)
        self.assertEqual(kinds, [(INT, 0), (DECIMAL, 2), (DATE, 0), (STRING, 0), (STRING, 0), (INT, 0), (STRING, 0), (INT, 0)])
        for name, got, want in zip(names, columns, table):
            self.assertTrue(got == want, "column %s differs" % name)


class Malformed(Case):
    INPUTS = {
        "empty file": b"",
        "only blank lines": b"\n\r\n\n",
        "only a byte order mark": b"\xef\xbb\xbf",
        "too few fields": b"a,b\n1,2\n3\n",
        "too many fields": b"a,b\n1,2\n3,4,5\n",
        "row of two NULLs under one name": b"a\n,\n",
        "unfinished quote": b'a,b\n1,"2\n3,4\n',
        "text after a closing quote": b'a,b\n"1"x,2\n',
        "blank after a closing quote": b'a,b\n"1" ,2\n',
        "quote inside a plain field": b'a,b\n1"2,3\n',
        "quote after a blank": b'a,b\n1, "2"\n',
        "lone CR": b"a,b\n1,2\r3,4\n",
        "CR at the end": b"a,b\n1,2\r",
        "CR CR LF": b"a,b\n1,2\r\r\n",
        "duplicate name": b"a,b,a\n1,2,3\n",
        "unnamed column": b"a,,c\n1,2,3\n",
        "empty name in quotes": b'a,""\n1,2\n',
        "name too long": b"n" * 65536 + b"\n1\n",
        "not UTF-8": b"a\n\xff\n",
        "UTF-8 cut off": b"a\nx\xc3",
        "surrogate in UTF-8": b"a\n\xed\xa0\x80\n",
        "overlong UTF-8": b"a\n\xc0\xaf\n",
    }

    def refuse(self, source, target):
        done = self.run_program(source, target)
        self.assertEqual(done.returncode, 2)
        self.assertNotEqual(done.stderr.strip(), b"", "a message on standard error")

    def test_malformed_input_is_refused(self):
        """And what is well formed between it is not."""
        lines, inputs = [], list(self.INPUTS.items())
        inputs[5:5] = [("well formed", b"a,b\n1,2\n"), ("well formed, no rows", b"x\n\n")]
        for n, (_, data) in enumerate(inputs):
            with open(os.path.join(self.dir, "%d.csv" % n), "wb") as f:
                f.write(data)
            lines.append("%s %d.csv %d.tcf >/dev/null 2>%d.err\necho $?\n" % (PROGRAM, n, n, n))
        with open(os.path.join(self.dir, "calls"), "w") as f:
            f.writelines(lines)
        _, told, _ = guard.run(["/bin/sh", "calls"], self.dir, timeout=60)
        self.assertEqual(len(told.split()), len(lines), "not all calls ended in time")
        for n, ((what, _), status) in enumerate(zip(inputs, told.split())):
            with self.subTest(what):
                if what.startswith("well formed"):
                    self.assertEqual(status, b"0")
                    self.assertTrue(os.path.lexists(os.path.join(self.dir, "%d.tcf" % n)), "no output was created")
                    continue
                self.assertEqual(status, b"2")
                self.assertGreater(os.path.getsize(os.path.join(self.dir, "%d.err" % n)), 0, "a message on standard error")
                self.assertFalse(os.path.lexists(os.path.join(self.dir, "%d.tcf" % n)), "output was created")

    def test_missing_input_is_refused(self):
        target = os.path.join(self.dir, "out.tcf")
        self.refuse(os.path.join(self.dir, "none.csv"), target)
        self.assertFalse(os.path.lexists(target), "output was created")

    def test_old_output_stays_after_an_error(self):
        source, target = os.path.join(self.dir, "in.csv"), os.path.join(self.dir, "out.tcf")
        with open(target, "wb") as f:
            f.write(b"precious")
        guard.give(target)
        with open(source, "wb") as f:
            f.write(b"a,b\n" + b"1,2\n" * 3000 + b"3\n")
        self.refuse(source, target)
        with open(target, "rb") as f:
            self.assertEqual(f.read(), b"precious")


if __name__ == "__main__":
    unittest.main()
