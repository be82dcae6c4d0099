"""Databases to try the report on, and what it has to say about them."""
import datetime
import os
import random
import sqlite3
from collections import Counter, defaultdict

HERE = os.path.dirname(os.path.abspath(__file__))
DAY = datetime.timedelta(1)
START = datetime.date(2019, 1, 1)


def read(name):
    with open(os.path.join(HERE, name)) as file:
        return file.read()


class Maker:
    """A database in memory; the same seed always gives the same one."""

    stock = None

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.db = sqlite3.connect(":memory:", isolation_level=None)
        self.db.executescript(read("schema.sql"))
        self.order = 0

    def below(self, n):
        return int(self.rng.random() * n)

    def pick(self, *items):
        return items[self.below(len(items))]

    def put(self, table, rows):
        rows = list(rows)
        if rows:
            self.db.execute("BEGIN")
            self.db.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)
            self.db.execute("COMMIT")

    def customers(self, regions, referrers=500):
        self.put("customers", ((i, f"Name {i % 7}", region, self.pick(None, 1 + self.below(referrers))) for i, region in enumerate(regions, 1)))

    def products(self, count):
        self.put("products", ((i, self.pick("tools", "garden", "kitchen", "toys", None, "Tools", "")) for i in range(1, count + 1)))

    def orders(self, owners, first, last, lines=3, nulls=8):
        """One order per owner, with a day between first and last."""
        span = (last - first).days + 1
        orders, items, payments = [], [], []
        for owner in owners:
            self.order += 1
            day = first + self.below(span) * DAY
            clock = self.pick("00:00:00", "23:59:59", "12:00:00", "08:%02d:%02d" % (self.below(60), self.below(60)))
            orders.append((self.order, owner, f"{day} {clock}", self.pick("paid", "sent", "open", "VOID", "void") if self.below(nulls) else None))
            for _ in range(self.below(2 * lines)):
                items.append((None, self.order if self.below(40) else self.below(100000), self.below(330) if self.below(nulls) else None, self.below(6),
                              self.pick(self.below(9000), self.below(9000), -self.below(9000), 500) if self.below(nulls) else None))
            for _ in range(self.pick(0, 1, 1, 1, 2)):
                payments.append((None, self.order if self.below(40) else self.pick(None, self.below(100000)), self.pick("charge", "charge", "refund", "Refund", "fee"), self.below(20000),
                                 str(day) if self.below(nulls) else None))
        self.put("orders", orders)
        self.put("lines", items)
        self.put("payments", payments)

    def block(self, rows):
        self.put("blocked", rows)

    @classmethod
    def stocked(cls, seed):
        """Starts with 7500 orders, which are made only once: say with spread() whose they are."""
        if cls.stock is None:
            cls.stock = cls(20)
            cls.stock.products(300)
            cls.stock.orders([0] * 7500, START, START)
        maker = cls(seed)
        cls.stock.db.backup(maker.db)
        maker.order = 7500
        return maker

    def spread(self, owners, first, last, part="1"):
        """Gives these owners that part of the stock, with days between first and last."""
        days = (last - first).days + 1
        self.db.execute(f"UPDATE orders SET customer_id = :low + id * 7919 % :count, placed_at = date(:first, (id * 6007 % :days) || ' days') || substr(placed_at, 11) WHERE id <= 7500 AND {part}",
                        {"low": owners.start, "count": len(owners), "first": str(first), "days": days})


def expected(db, region, first, last):
    """The report, worked out without SQL; the columns are those of original.sql."""
    inside, early = defaultdict(list), set()
    for ident, customer, placed, status in db.execute("SELECT id, customer_id, placed_at, status FROM orders"):
        if placed[:10] < first:
            early.add(customer)
        if first <= placed[:10] <= last and status not in (None, "void"):
            inside[customer].append((placed, ident))
    owner = {ident: customer for customer, rows in inside.items() for _, ident in rows}
    category = dict(db.execute("SELECT id, category FROM products"))
    gross, paid, amounts = {}, {}, defaultdict(Counter)
    for order, product, quantity, cents in db.execute("SELECT order_id, product_id, quantity, cents FROM lines"):
        if order in owner:
            if cents is not None:
                gross[owner[order]] = gross.get(owner[order], 0) + quantity * cents
            if product in category:
                amounts[owner[order]][category[product]] += quantity
    for order, kind, cents, settled in db.execute("SELECT order_id, kind, cents, settled_on FROM payments"):
        if order in owner and settled is not None:
            paid[owner[order]] = paid.get(owner[order], 0) + (-cents if kind == "refund" else cents)
    people = db.execute("SELECT id, name, region, referrer_id FROM customers").fetchall()
    names = {p[0]: p[1] for p in people}
    here = [p for p in people if p[2] == region]
    blocked = {b for b, until in db.execute("SELECT customer_id, until FROM blocked") if until is None or until >= first}
    if None in blocked:
        return []
    report = []
    for ident, name, _, referrer in here:
        if ident in blocked or ident not in inside:
            continue
        place = 1 + sum(gross.get(other[0], 0) > gross.get(ident, 0) for other in here)
        top = min(amounts[ident].items(), key=lambda item: (-item[1], item[0] is not None, item[0] or ""), default=(None,))[0]
        report.append((ident, name, names.get(referrer), len(inside[ident]), gross.get(ident), paid.get(ident), max(inside[ident])[1], top, int(ident not in early), place))
    return sorted(report, key=lambda row: (row[-1], row[0]))
