import datetime
import hashlib
import re
import sqlite3
import unittest

from databases import DAY, START, Maker, expected, read

BUDGET = 400_000
END = datetime.date(2023, 12, 31)
COLUMNS = ["customer_id", "name", "referrer", "orders", "gross", "paid", "last_order", "top_category", "is_new", "place"]
SHA = {
    "/app/original.sql": "8b424743bacfb2513de339d74608a9653e8c62285687d4f02d11f7d93d4478ab",
    "/app/schema.sql": "c6c725e8a615a880718f60c642246d6a9b60a12de5b273319a0f3a301a4081c3",
}
SAMPLE_SHA = "6d92974a1e86ceca16460b009137659342317cdd4c066a3cee85b26c1ef47324"
TABLES = ("blocked", "customers", "lines", "orders", "payments", "products")
ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, 33}  # 33: SQLITE_RECURSIVE


def text(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def content(db):
    """A digest of all rows of the base tables."""
    digest = hashlib.sha256()
    for table in TABLES:
        digest.update(repr((table, db.execute(f"SELECT rowid, * FROM {table} ORDER BY rowid").fetchall())).encode())
    return digest.hexdigest()


def statements(script):
    """The statements of a script, without comments."""
    plain = re.sub(r"--[^\n]*|/\*.*?\*/", " ", script, flags=re.S)
    return [" ".join(piece.split()) for piece in plain.split(";") if piece.strip()]


def add_indexes(db):
    script = text("/app/indexes.sql")
    for statement in statements(script):
        if not re.match(r"(?i)CREATE INDEX ", statement):
            raise AssertionError(f"not a CREATE INDEX statement: {statement[:60]}")
    db.executescript(script)


class Report(unittest.TestCase):
    def is_a_select(self):
        self.assertRegex((statements(text("/app/report.sql")) or [""])[0], r"(?i)^(SELECT|WITH)\b")

    def run_on(self, db, region, first, last, budget=BUDGET):
        """Rows of the agent's report; fails when the budget is spent."""
        steps = 0

        def count():
            nonlocal steps
            steps += 100
            return int(steps > budget)

        def check(action, *_):
            return sqlite3.SQLITE_OK if action in ALLOWED else sqlite3.SQLITE_DENY

        query = text("/app/report.sql")
        db.set_authorizer(check)
        db.set_progress_handler(count, 100)
        try:
            cursor = db.execute(query, {"region": region, "first": str(first), "last": str(last)})
            names = [column[0] for column in cursor.description]
            rows = cursor.fetchall()
        except sqlite3.OperationalError as error:
            self.fail(f"more than {budget} steps" if "interrupted" in str(error) else str(error))
        finally:
            db.set_progress_handler(None, 0)
            db.set_authorizer(None)
        self.assertEqual(names, COLUMNS)
        return rows

    def same(self, got, want):
        for n, (have, need) in enumerate(zip(got, want)):
            self.assertEqual(have, need, f"row {n}")
            self.assertEqual([type(v) for v in have], [type(v) for v in need], f"row {n}")
        self.assertEqual(len(got), len(want), "number of rows")

    def check(self, maker, region, first, last, least=1):
        """On a large database: results against the reference, steps against the budget."""
        db = maker.db
        for table, most in (("customers", 400), ("orders", 8000), ("lines", 25000), ("payments", 9000), ("products", 300), ("blocked", 60)):
            self.assertLessEqual(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0], most, table)
        for what, most in (("", 400), ("JOIN lines x ON x.order_id = o.id", 1500), ("JOIN payments x ON x.order_id = o.id", 800)):
            here = db.execute(f"SELECT count(*) FROM customers c JOIN orders o ON o.customer_id = c.id {what} WHERE c.region = ? AND substr(o.placed_at, 1, 10) BETWEEN ? AND ?",
                              (region, str(first), str(last)))
            self.assertLessEqual(here.fetchone()[0], most, what)
        want = expected(db, region, str(first), str(last))
        self.assertGreaterEqual(len(want), least)
        add_indexes(db)
        self.same(self.run_on(db, region, first, last), want)


class Files(Report):
    def test_given_files_are_unchanged(self):
        for path, digest in SHA.items():
            with open(path, "rb") as file:
                self.assertEqual(hashlib.sha256(file.read()).hexdigest(), digest, path)

    def test_sample_is_unchanged(self):
        db = sqlite3.connect("file:/app/sample.db?mode=ro", uri=True)
        self.addCleanup(db.close)
        self.assertEqual(sorted(db.execute("SELECT type, name FROM sqlite_master")), sorted(("table", t) for t in TABLES))
        self.assertEqual(content(db), SAMPLE_SHA)

    def test_indexes_are_at_most_four_create_index_statements(self):
        add_indexes(Maker(4).db)
        self.assertLessEqual(len(statements(text("/app/indexes.sql"))), 4)

    def test_indexes_change_nothing_else(self):
        maker = Maker(5)
        maker.customers(["a", "b"] * 9)
        maker.products(20)
        maker.orders([1 + maker.below(18) for _ in range(60)], START, END)
        before, tables = content(maker.db), sorted(maker.db.execute("SELECT name, sql FROM sqlite_master"))
        add_indexes(maker.db)
        self.assertEqual(content(maker.db), before)
        self.assertEqual(sorted(maker.db.execute("SELECT name, sql FROM sqlite_master WHERE type <> 'index'")), tables)
        self.assertLessEqual(len(maker.db.execute("SELECT 1 FROM sqlite_master WHERE type = 'index'").fetchall()), 4)

    def test_report_is_one_select(self):
        self.is_a_select()
        maker = Maker(6)
        add_indexes(maker.db)
        self.assertEqual(self.run_on(maker.db, "a", START, END), [])


class Written(Report):
    def setUp(self):
        """No database is made for a report that is none."""
        text("/app/indexes.sql")
        self.is_a_select()


class SameAsOriginal(Written):
    """Small databases full of odd cases, where the original itself can be run."""

    def compare(self, maker, region, first, last):
        values = {"region": region, "first": str(first), "last": str(last)}
        want = maker.db.execute(read("original.sql"), values).fetchall()
        self.assertEqual(expected(maker.db, **values), want, "the reference is wrong")
        add_indexes(maker.db)
        self.same(self.run_on(maker.db, region, first, last), want)
        # What no ORDER BY decides comes out the other way round: an order that is only a matter of luck is none.
        maker.db.execute("PRAGMA reverse_unordered_selects = ON")
        self.same(self.run_on(maker.db, region, first, last), want)
        return want

    def test_random_small_databases(self):
        rows = 0
        for seed in range(100, 140):
            with self.subTest(seed=seed):
                maker = Maker(seed)
                maker.customers([maker.pick("a", "a", "a", "a", "b", "A", "a ") for _ in range(12)], referrers=16)
                maker.products(12)
                maker.orders([maker.below(14) for _ in range(45)], START, START + 20 * DAY, nulls=4)
                maker.block((maker.below(14), maker.pick(None, str(START + maker.below(20) * DAY))) for _ in range(maker.below(4)))
                first = START + maker.below(10) * DAY
                rows += len(self.compare(maker, "a", first, first + maker.below(12) * DAY))
        self.assertGreater(rows, 60)

    def test_blocked_entry_without_customer_empties_the_report(self):
        maker = Maker(7)
        maker.customers(["a"] * 5)
        maker.orders([1, 2, 3, 4, 5] * 3, START, START + 9 * DAY)
        maker.block([(None, "2019-01-03"), (2, "2018-01-01")])
        self.assertEqual(self.compare(maker, "a", START, START + 9 * DAY), [])

    def test_expired_blocked_entry_without_customer_does_not_matter(self):
        maker = Maker(8)
        maker.customers(["a"] * 5)
        maker.orders([1, 2, 3, 4, 5] * 3, START, START + 9 * DAY)
        maker.block([(None, "2019-01-03"), (2, "2019-01-04"), (3, None), (4, "2019-01-03")])
        self.assertGreater(len(self.compare(maker, "a", START + 3 * DAY, START + 9 * DAY)), 0)

    def test_ranking_counts_blocked_customers_and_those_without_orders(self):
        maker = Maker(9)
        maker.customers(["a"] * 6 + ["b"] * 3)
        maker.put("products", [(1, "x"), (2, "y"), (3, None)])
        maker.put("orders", [(1, 1, "2019-01-01 00:00:00", "paid"), (2, 2, "2019-01-31 23:59:59", "paid"), (3, 3, "2019-01-15 10:00:00", "paid"), (4, 4, "2019-01-15 10:00:00", "void"),
                             (5, 7, "2019-01-15 10:00:00", "paid"), (6, 1, "2019-01-01 00:00:00", "paid"), (7, 2, "2018-12-31 23:59:59", "void"), (8, 3, "2019-02-01 00:00:00", "paid")])
        maker.put("lines", [(None, 1, 1, 2, -500), (None, 2, 2, 1, 700), (None, 2, 1, 1, 100), (None, 3, None, 5, 900), (None, 4, 1, 1, 99999), (None, 5, 1, 1, 99999), (None, 6, 3, 2, None)])
        maker.block([(3, None)])
        rows = self.compare(maker, "a", "2019-01-01", "2019-01-31")
        self.assertEqual([(r[0], r[-1]) for r in rows], [(2, 2), (1, 6)])

    def test_periods_of_one_day_and_unknown_regions(self):
        for region, first in (("a", START), ("a", START + DAY), ("nowhere", START), ("a", START - 9 * DAY)):
            maker = Maker(10)
            maker.customers(["a"] * 8)
            maker.products(5)
            maker.orders([1 + maker.below(8) for _ in range(50)], START, START + 2 * DAY)
            self.compare(maker, region, first, first)

    def test_empty_tables(self):
        self.compare(Maker(11), "a", START, END)


class WithinBudget(Written):
    def test_sample(self):
        db = sqlite3.connect(":memory:", isolation_level=None)
        source = sqlite3.connect("file:/app/sample.db?mode=ro", uri=True)
        source.backup(db)
        source.close()
        asked = [("islands", "2022-04-01", "2022-06-30"), ("centre", "2022-04-01", "2022-04-30"), ("north", "2023-01-01", "2023-03-31"), ("coast", "2021-01-01", "2021-01-31")]
        wants = [expected(db, *values) for values in asked]
        add_indexes(db)
        for values, want in zip(asked, wants):
            with self.subTest(region=values[0]):
                self.assertGreater(len(want), 2)
                self.same(self.run_on(db, *values), want)

    def test_nearly_all_customers_in_one_region(self):
        maker = Maker.stocked(21)
        maker.customers(["big"] * 190 + ["other"] * 12 + ["big"] * 198)
        maker.spread(range(1, 401), START, datetime.date(2022, 4, 30))
        maker.orders([1 + maker.below(400) for _ in range(380)], datetime.date(2022, 5, 1), datetime.date(2022, 5, 31))
        maker.block((1 + maker.below(400), maker.pick(None, "2022-05-31", "2021-01-01")) for _ in range(60))
        self.check(maker, "big", "2022-05-01", "2022-05-31", least=100)

    def test_few_customers_with_nearly_all_orders(self):
        maker = Maker.stocked(22)
        maker.customers(["few"] * 4 + ["many"] * 396)
        maker.spread(range(1, 5), START, datetime.date(2021, 12, 31), part="id % 15 < 8")
        maker.spread(range(1, 5), datetime.date(2022, 2, 11), END, part="id % 15 >= 8")
        maker.orders([1 + maker.below(4) for _ in range(330)], datetime.date(2022, 1, 1), datetime.date(2022, 2, 10))
        self.check(maker, "few", "2022-01-01", "2022-02-10", least=4)

    def test_period_that_covers_everything(self):
        maker = Maker.stocked(23)
        maker.customers(["rest"] * 370 + ["small"] * 30)
        maker.spread(range(1, 371), START, END)
        maker.orders([371 + maker.below(30) for _ in range(380)], START, END)
        maker.block((371 + maker.below(30), maker.pick("2018-01-01", "2024-01-01")) for _ in range(6))
        self.check(maker, "small", START, END, least=15)

    def test_all_orders_on_one_day(self):
        maker = Maker.stocked(24)
        maker.customers([maker.pick("x", "y") if maker.below(12) == 0 else "rest" for _ in range(400)])
        day = datetime.date(2022, 3, 31)
        maker.spread(range(1, 401), day, day)
        self.check(maker, "x", day, day, least=8)

    def test_orders_with_many_lines(self):
        maker = Maker.stocked(25)
        maker.customers(["a"] * 60 + ["b"] * 340)
        maker.spread(range(1, 401), START, datetime.date(2022, 4, 30))
        maker.orders([1 + maker.below(60) for _ in range(100)], datetime.date(2022, 5, 1), datetime.date(2022, 5, 31), lines=8)
        self.check(maker, "a", "2022-05-01", "2022-05-31", least=30)

    def test_everything_at_its_limit(self):
        maker = Maker.stocked(27)
        maker.customers(["all"] * 400)
        maker.spread(range(1, 401), START, datetime.date(2022, 4, 30))
        maker.orders([1 + i for i in range(396)], datetime.date(2022, 5, 1), datetime.date(2022, 5, 31), lines=4, nulls=99)
        maker.db.execute("UPDATE orders SET status = 'sent'")
        maker.block((1 + maker.below(400), "2021-01-01") for _ in range(60))
        self.check(maker, "all", "2022-05-01", "2022-05-31", least=390)

    def test_ordinary_year(self):
        maker = Maker.stocked(26)
        maker.customers([maker.pick("n", "s", "s", "e", "w") for _ in range(400)])
        maker.spread(range(1, 401), START, END)
        maker.block((1 + maker.below(400), maker.pick(None, "2022-05-31", "2021-01-01")) for _ in range(40))
        self.check(maker, "s", "2021-03-01", "2021-04-30", least=50)


if __name__ == "__main__":
    unittest.main()
