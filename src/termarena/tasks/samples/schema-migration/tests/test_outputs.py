import hashlib
import os
import shutil
import sqlite3
import unittest
from urllib.parse import quote

import guard
import legacy
import reference

PROGRAM = "/app/migrate"
SCHEMA_SHA = "10fd30e69b9ac794c8154daa7c5bbf67373d31b7e7f41a6813394520e111da40"
TABLES = ("customer", "product", "purchase", "purchase_line", "quarantine")
COLUMNS = {
    "customer": [("id", "INTEGER", 0, 1), ("name", "TEXT", 1, 0), ("email", "TEXT", 1, 0), ("phone", "TEXT", 0, 0), ("since", "TEXT", 0, 0)],
    "product": [("sku", "TEXT", 1, 1), ("title", "TEXT", 1, 0)],
    "purchase": [("number", "INTEGER", 0, 1), ("customer_id", "INTEGER", 1, 0), ("placed_on", "TEXT", 1, 0), ("state", "TEXT", 1, 0)],
    "purchase_line": [("purchase_number", "INTEGER", 1, 1), ("line", "INTEGER", 1, 2), ("sku", "TEXT", 1, 0), ("quantity", "INTEGER", 1, 0), ("unit_cents", "INTEGER", 1, 0)],
    "quarantine": [("source", "TEXT", 1, 1), ("source_rowid", "INTEGER", 1, 2), ("reason", "TEXT", 1, 0)],
}
FOREIGN = {"purchase": {("customer_id", "customer", "id")}, "purchase_line": {("purchase_number", "purchase", "number"), ("sku", "product", "sku")}}
REFUSED = [
    "INSERT INTO purchase SELECT 900000001, min(id), '2020-01-01', 'lost' FROM customer",
    "INSERT INTO purchase VALUES (900000001, 900000001, '2020-01-01', 'open')",
    "INSERT INTO purchase_line SELECT min(number), 900, (SELECT min(sku) FROM product), 0, 5 FROM purchase",
    "INSERT INTO purchase_line SELECT min(number), 900, (SELECT min(sku) FROM product), 1, -5 FROM purchase",
    "INSERT INTO purchase_line SELECT min(number), 0, (SELECT min(sku) FROM product), 1, 5 FROM purchase",
    "INSERT INTO purchase_line SELECT min(number), 900, 'no such sku', 1, 5 FROM purchase",
    "INSERT INTO customer SELECT 900000001, 'x', min(email), NULL, NULL FROM customer",
    "INSERT INTO customer VALUES (900000001, NULL, 'unheard@of', NULL, NULL)",
    "INSERT INTO quarantine VALUES ('elsewhere', 1, 'x')",
    "INSERT INTO quarantine SELECT source, source_rowid, 'x' FROM quarantine LIMIT 1",
]


def connect(path):
    return sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True)


def rows(path, tables=TABLES):
    db = connect(path)
    try:
        return {table: sorted(db.execute(f"SELECT * FROM {table}")) for table in tables}
    finally:
        db.close()


def legacy_rows(path):
    db = connect(path)
    try:
        return {table: db.execute(f"SELECT rowid, * FROM {table} ORDER BY rowid").fetchall() for table in ("cust", "ord", "ord_item")}
    finally:
        db.close()


def sha(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


class Case(unittest.TestCase):
    maxDiff = 3000

    def setUp(self):
        self.dir = guard.folder(self)

    def at(self, name):
        return os.path.join(self.dir, name)

    def same(self, target, source):
        got, want = rows(target), reference.expected(source)
        for table in TABLES:
            missing, extra = [r for r in want[table] if r not in set(got[table])], [r for r in got[table] if r not in set(want[table])]
            self.assertFalse(missing or extra, f"{table}: missing {missing[:3]}, wrong or extra {extra[:3]}")
            self.assertEqual(got[table], want[table])
            self.assertEqual([[type(v) for v in r] for r in got[table]], [[type(v) for v in r] for r in want[table]], table)
        return want

    def call(self, source, target):
        status, out, err = guard.run([PROGRAM, source, target], self.dir, timeout=20)
        return status, out.decode(), err.decode(errors="replace")

    def migrate(self, source, target):
        status, out, err = self.call(source, target)
        self.assertEqual(status, 0, err[-600:])
        want = self.same(os.path.join(self.dir, target), os.path.join(self.dir, source))
        self.assertEqual(out, "customers={} products={} purchases={} lines={} quarantined={}\n".format(*(len(want[t]) for t in TABLES[:3]), len(want["purchase_line"]), len(want["quarantine"])))

    def made(self, name, cust=(), ord=(), item=()):
        """A legacy database with just these rows; the tables are those of the real ones."""
        db = sqlite3.connect(self.at(name))
        db.executescript(legacy.TABLES)
        db.executemany("INSERT INTO cust VALUES (?, ?, ?, ?, ?)", cust)
        db.executemany("INSERT INTO ord VALUES (?, ?, ?, ?)", ord)
        db.executemany("INSERT INTO ord_item VALUES (?, ?, ?, ?, ?)", item)
        db.commit()
        db.close()
        guard.give(self.at(name))
        return name

    def schema(self, path):
        db = connect(path)
        self.addCleanup(db.close)
        found = sorted(r[0] for r in db.execute("SELECT name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'"))
        self.assertEqual(found, sorted(TABLES))
        for table in TABLES:
            info = [(name, kind.upper(), notnull, pk) for _, name, kind, notnull, _, pk in db.execute(f"PRAGMA table_info({table})")]
            self.assertEqual(info, COLUMNS[table], table)
            keys = {(r[3], r[2], r[4]) for r in db.execute(f"PRAGMA foreign_key_list({table})")}
            self.assertEqual(keys, FOREIGN.get(table, set()), table)
        self.assertEqual(db.execute("PRAGMA foreign_key_check").fetchall(), [])
        self.assertEqual(db.execute("PRAGMA integrity_check").fetchall(), [("ok",)])
        copy = sqlite3.connect(":memory:")
        self.addCleanup(copy.close)
        db.backup(copy)
        copy.execute("PRAGMA foreign_keys = ON")
        for statement in REFUSED:
            with self.assertRaises(sqlite3.IntegrityError, msg=statement):
                copy.execute(statement)


class Own(Case):
    def test_schema_sql_is_unchanged(self):
        self.assertEqual(sha("/app/schema.sql"), SCHEMA_SHA)

    def test_legacy_db_is_unchanged_and_new_db_has_its_rows(self):
        self.assertTrue(os.path.exists("/app/new.db"), "there is no /app/new.db")
        legacy.build(self.at("again.db"), 4711)
        self.assertEqual(legacy_rows("/app/legacy.db"), legacy_rows(self.at("again.db")))
        self.same("/app/new.db", self.at("again.db"))

    def test_new_db_has_the_schema(self):
        self.schema("/app/new.db")


class Program(Case):
    def setUp(self):
        self.assertTrue(os.access(PROGRAM, os.X_OK), "there is no program " + PROGRAM)
        super().setUp()

    def test_unseen_database(self):
        legacy.build(self.at("branch.db"), 1, 180, 400, 1500)
        guard.give(self.at("branch.db"))
        before = sha(self.at("branch.db"))
        self.migrate("branch.db", "new.db")
        self.schema(self.at("new.db"))
        self.assertEqual(sha(self.at("branch.db")), before, "LEGACY was changed")

    def test_dates_phones_and_states(self):
        good = ["2021-03-05", "2020-02-29", "2000-02-29 01:02", "2021-03-05T25:61:61", "5/3/2021", "05/3/2021", "31.12.2029", "1.1.1990", "19900101", "Feb 29, 2024",
                "dec 1, 2021", "SEP 09, 2021", " \t2021-03-05\r\n"]
        bad = ["2021-02-29", "1900-02-29", "2021-3-05", "21-03-05", "2021/03/05", "5-3-2021", "05/03/21", "31/04/2021", "13/13/2021", "0/1/2021", "5/3.2021", "20210229", "2021030", "202103051",
               "Mar  5, 2021", "March 5, 2021", "5 Mar 2021", "Mar 5 2021", "Mar 5,2021", "Mai 5, 2021", "1989-12-31", "2030-01-01", "2021-03-05 1:00", "2021-03-05T10:00:00Z", "2021-03-05 ,",
               "2021-03-05  10:00", "2021-00-10", "2021-10-00", "", None, "0000-00-00", "2021-03-05 10"]
        phones = ["1234567", "123456", "123456789012345", "1234567890123456", "+1234567", "+123456", "001234567", "00123456", "0012345678901234567", "++1234567", "12+34567", "(030) 12.34-56/7", "1234567x",
                  "0 0 1234567", " +49 1234567 ", "+(49) 1234567", "(+49) 1234567", "+0049 1234567", "", None, "+", "()", "0001234567"]
        states = ["open", "New", "PENDING", "paid", "payed", "p", "P ", "shipped", "sent", "done", "cancelled", "canceled", "void", "\tVOID\n", "pay", "", None, "open.", "null", "o pen"]
        cust = [(i, "x", f"u{i}@h", None, d) for i, d in enumerate(good + bad, 1)] + [(i, "x", f"u{i}@h", p, None) for i, p in enumerate(phones, 101)]
        orders = [(str(i), 1, d, "paid") for i, d in enumerate(good + bad, 1)] + [(str(i), 1, "2020-01-01", s) for i, s in enumerate(states, 101)]
        self.migrate(self.made("a.db", cust, orders), "b.db")

    def test_emails_merging_of_customers_and_order_numbers(self):
        mails = ["A@B", "a@b", " a@b\n", "a@b.c", "a@@b", "a@", "@b", "@", "ab", "a b@c", "a@b\tc", "a@b@c", "", None, "x+y@Z.example", "X+Y@z.Example", "a\n@b"]
        cust = [(150 - i, f"n{i}", m, None, None) for i, m in enumerate(mails)]
        orders = [(str(1000 + i), 150 - i, "2020-01-01", "p") for i in range(len(mails))]
        cust += [(30, "Last Name", "a@x", "n/a", "2020-05-01"), (7, "First", "A@X", "0012345678", "bad"), (12, " Mid\t\nName ", "a@X ", "555 1234567", "2/1/2019"), (40, "  ", "a@x", "12", None),
                 (9, None, "Nobody.Known@x", None, ""), (8, "", "nobody.known@x", "+0012345678", "Dec 31, 1999")]
        orders += [(f"ORD-{i}", c, "2021-01-01", "done") for i, c in enumerate([30, 7, "12", " 40 ", 9, 8, 41, "7x", None, "", "007", 0], 2001)]
        cust += [(1, "x", "one@b", None, None), (2, "x", "bad", None, None)]
        ok = (1, "2021-01-01", "paid")
        orders += [("1", *ok), ("ORD-1", *ok), ("ord#001", 99, "2021-01-01", "paid"), ("#2", *ok), ("-3", *ok), ("ORD4", *ok), ("5 ", *ok), ("ORD 6", *ok), ("ORD-#7", *ok), ("0", *ok), ("ORD-000", *ok),
                   ("1234567890123", *ok), ("123456789012", *ok), ("000000000013", *ok), ("ORDER-8", *ok), (None, *ok), ("", 5, None, None), ("9", 5, "x", "x"), ("10", 1, "x", "x"), ("11", 1, "2020-01-01", "x"),
                   ("12", 1, "2020-01-01", None), ("+3", *ok), ("14", 2, "2020-01-01", "open"), ("4.0", *ok)]
        items = [(n, "s", "t", 1, "1") for n in ("1", "ORD-2", "#3", "4", "5", "9", "10", "123456789012", "13", "77", None, "x", "11", "0")] + [("x", None, None, None, None), ("77", None, None, None, None)]
        self.migrate(self.made("a.db", cust, orders, items), "b.db")

    def test_lines_quantities_and_prices(self):
        """Equal lines are merged and numbered by their first row."""
        lines = [("1", "b", "", 1, "2.00"), ("1", "A", " Late  title ", 2, 5), ("#1", " B ", "bee", 3, 2), ("1", "b", "other", 1, "2.01"), ("1", "a", "x", "4", 5.0), ("2", "a", None, 1, "$5"),
                 ("1", "b", "x", 0, 2), ("1", " ", "x", 1, 1), ("1", "c", "", 1, 1), ("2", "b", None, 7, "1.999"), ("3", "zz", "lost", 1, 1), ("1", "b", None, 1, "1.995"), ("2", "d", "quarantined", "x", 1),
                 ("2", "d", "good", 1, 1), ("1", None, None, None, None), ("1", "e", None, None, None), ("1", "e", None, 1, None)]
        quantities = [1, 0, -1, 3.0, 0.0, 2.5, -3.0, "4", " 5\n", "06", "0", "000", "-7", "+7", "8.0", "1e3", "1_0", "999999999", "1234567890", "", None, "x", 10**12]
        prices = [0, 5, -1, 19.99, 0.29, 1.15, 4.35, 1144.4, 8.2, 0.07, -0.5, 0.0, 1e6, "5", "5.5", "5.55", "5.555", "8.115", "1.005", "0.994999999999999999999", "0.995", "2.675", "1,234.50", "1,2,3", "12,",
                  "$5", "$ 5", "$  5", "5USD", "5 usd", "$5.10 USD", "5  USD", " 7.25\t", "$", "USD", ".5", "5.", "-5", "+5", "1.2.3", "1 000", "5 EUR", "5$", ",5", "5.5,0", "", None, "0", "$0.00", "0.004", "0.005",
                  "1e3", "123456789012.345", "90071992547409.935"]
        lines += [("4", f"q{i}", None, v, 1) for i, v in enumerate(quantities)] + [("5", f"s{i}", None, 1, v) for i, v in enumerate(prices)]
        self.migrate(self.made("a.db", [(1, "x", "a@b", None, None)], [(n, 1, "2020-01-01", "p") for n in "1245"], lines), "b.db")

    def test_empty_tables(self):
        self.migrate(self.made("a.db"), "b.db")

    def test_earlier_content_of_the_target_is_replaced(self):
        legacy.build(self.at("a.db"), 8, 60, 90, 200)
        legacy.build(self.at("other.db"), 9, 60, 90, 200)
        self.migrate("a.db", "b.db")
        self.migrate("a.db", "b.db")
        db = sqlite3.connect(self.at("b.db"))
        db.executescript("CREATE TABLE extra (x); INSERT INTO extra VALUES (1); CREATE INDEX i ON purchase (placed_on); UPDATE customer SET name = 'changed'; "
                         "CREATE VIEW v AS SELECT 1; CREATE TRIGGER t AFTER INSERT ON product BEGIN DELETE FROM customer; END;")
        db.close()
        self.migrate("other.db", "b.db")
        self.schema(self.at("b.db"))

    def test_odd_file_names(self):
        legacy.build(self.at("old %41 #1?mode=rw&x.db"), 10, 20, 30, 60)
        self.migrate("old %41 #1?mode=rw&x.db", "new %42 #2?x=y 'q'.db")
        self.assertEqual(sorted(os.listdir(self.dir)), ["new %42 #2?x=y 'q'.db", "old %41 #1?mode=rw&x.db"])

    def test_unusable_legacy_leaves_the_target_alone(self):
        legacy.build(self.at("a.db"), 8, 20, 30, 60)
        self.migrate("a.db", "kept.db")
        before = sha(self.at("kept.db"))
        with open(self.at("text.db"), "w") as file:
            file.write("this is no database, only some text\n" * 50)
        for table in ("cust", "ord", "ord_item"):
            shutil.copyfile(self.at("a.db"), self.at(f"no-{table}.db"))
            db = sqlite3.connect(self.at(f"no-{table}.db"))
            db.execute(f"DROP TABLE {table}")
            db.commit()
            db.close()
        for source, target in (("missing.db", "kept.db"), ("missing.db", "never.db"), ("text.db", "kept.db"), ("no-cust.db", "kept.db"), ("no-ord.db", "kept.db"), ("no-ord_item.db", "kept.db"),
                               ("no-ord_item.db", "never.db")):
            status, out, _ = self.call(source, target)
            self.assertEqual((status, out), (1, ""), source)
        self.assertEqual(sha(self.at("kept.db")), before)
        self.assertFalse(os.path.exists(self.at("never.db")))
        self.assertFalse(os.path.exists(self.at("missing.db")))


if __name__ == "__main__":
    unittest.main()
