"""Makes a legacy shop database: legacy.py FILE SEED. The same seed always gives the same rows."""
import random
import sqlite3
import sys

TABLES = """
CREATE TABLE cust (id INTEGER, full_name TEXT, email TEXT, phone TEXT, since TEXT);
CREATE TABLE ord (no TEXT, cust_id, placed TEXT, state TEXT);
CREATE TABLE ord_item (ord_no TEXT, sku TEXT, title TEXT, qty, price);
"""


class Maker:
    def __init__(self, seed):
        self.rng = random.Random(seed)

    def below(self, n):
        return int(self.rng.random() * n)

    def pick(self, *items):
        return items[self.below(len(items))]

    def pad(self, text):
        return self.pick("", "", "", " ", "\t", "  ") + text + self.pick("", "", "", " ", "\n", " \r\n")

    def date(self):
        y, m, d = 2012 + self.below(12), 1 + self.below(12), 1 + self.below(28)
        month = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()[m - 1]
        good = [f"{y}-{m:02}-{d:02}", f"{y}-{m:02}-{d:02}", f"{y}-{m:02}-{d:02} 07:{d:02}", f"{y}-{m:02}-{d:02}T23:59:{d:02}", f"{d:02}/{m:02}/{y}", f"{d}/{m}/{y}", f"{d:02}.{m:02}.{y}",
                f"{d}.{m}.{y}", f"{y}{m:02}{d:02}", f"{month} {d}, {y}", f"{month.upper()} {d:02}, {y}"]
        bad = [None, "", "unknown", f"{y}-02-30", f"31/06/{y}", f"{y}-{m}-{d}", f"{m:02}/{d:02}/{y % 100:02}", "00000000", f"{y}1301", "1970-01-01", f"29.02.{y // 4 * 4 + 1}"]
        return self.pad(self.pick(*good)) if self.below(14) else self.pick(*bad)

    def email(self):
        user = self.pick("anna", "bert", "carla.m", "dirk", "eve+shop", "fritz_", "gil") + str(self.below(12))
        text = f"{user}@{self.pick('example.com', 'example.org', 'mail.example.net')}"
        text = "".join(c.upper() if self.below(8) == 0 else c for c in text)
        return self.pad(text) if self.below(15) else self.pick(None, "", "none", "a@b@example.com", "@example.com", "x y@example.com", user + "@", " ")

    def phone(self):
        return self.pick(None, "", f"0{self.below(900) + 100}-{self.below(9000) + 1000}", f"+49 (30) {1000000 + self.below(9000000)}", f"0049 30/{100000 + self.below(900000)}",
                         f"555.{1000 + self.below(9000)}", "n/a", "12345", f"030 {10000 + self.below(90000)} ext. 7", f" 00{10000000 + self.below(90000000)} ", "+1-800-FLOWERS", "+",
                         "1234567890123456")

    def name(self):
        return self.pad(self.pick("Anna  Berg", "Bert Cole", "Carla M\t Dorn", "Dirk", "Eve Fox", "F. Gil")) if self.below(8) else self.pick(None, "", "  ")

    def number(self, n):
        return self.pad(self.pick(f"ORD-{n:06}", f"ORD-{n:06}", f"ord{n}", f"#{n}", str(n), f"Ord#0{n}", f"{n:09}")) if self.below(60) else self.pick(None, "", "ORD-", "temp", f"ORD--{n}", f"{n}b", "-0", "0")

    def quantity(self):
        n = 1 + self.below(9)
        return self.pick(n, n, n, n, str(n), f" {n} ", float(n)) if self.below(25) else self.pick(0, -1, 1.5, "two", "", None, "-3", "1.0", "0")

    def price(self):
        cents = self.below(200000)
        whole, rest = divmod(cents, 100)
        good = [f"{whole}.{rest:02}", f"${whole}.{rest:02}", f"{whole:,}.{rest:02}", f"$ {whole:,}", f"{whole}.{rest // 10} USD", f"{whole}USD", cents / 100, whole, f"{whole}.{rest:02}5",
                f"{whole}.{rest:02}4999", f" {whole}.{rest:02}\n", 0, f"{whole}.005", f"{whole}.115"]
        return self.pick(*good) if self.below(25) else self.pick(None, "", "free", "-5", f"{whole}.", ".50", "$$3", "1.2.3", f"EUR {whole}", ",5", "-0.01", -2, -1.25)

    def sku(self):
        return self.pad(self.pick("ab", "AB", "Ab", "zx", "q") + "-" + str(self.below(4))) if self.below(50) else self.pick(None, "", "  ")

    def title(self):
        return self.pick("Mug", " Mug,  blue ", "Lamp", "Cable\t2m", None, "", " ")


def build(path, seed, customers=260, orders=700, items=2200):
    make = Maker(seed)
    db = sqlite3.connect(path)
    db.executescript(TABLES)
    ids = list(range(100, 100 + customers * 2))
    for i in range(len(ids) - 1, 0, -1):
        j = make.below(i + 1)
        ids[i], ids[j] = ids[j], ids[i]
    ids = ids[:customers]
    for i in ids:
        db.execute("INSERT INTO cust VALUES (?, ?, ?, ?, ?)", (i, make.name(), make.email(), make.phone(), make.date()))
    numbers = []
    for _ in range(orders):
        owner = ids[make.below(len(ids))] if make.below(20) else make.pick(None, 5, "gone", 99999)
        if isinstance(owner, int) and make.below(6) == 0:
            owner = make.pad(str(owner))
        state = make.pad(make.pick("open", "NEW", "Pending", "paid", "PAYED", "p", "shipped", "Sent", "done", "cancelled", "Canceled", "VOID")) if make.below(25) else make.pick(None, "", "lost", "open!")
        numbers.append(1 + make.below(orders * 4))
        db.execute("INSERT INTO ord VALUES (?, ?, ?, ?)", (make.number(numbers[-1]), owner, make.date(), state))
    prices = [make.price() for _ in range(40)]
    for _ in range(items):
        wanted = numbers[make.below(len(numbers))] if make.below(30) else 1 + make.below(orders * 4)
        price = prices[make.below(len(prices))] if make.below(3) else make.price()
        db.execute("INSERT INTO ord_item VALUES (?, ?, ?, ?, ?)", (make.number(wanted), make.sku(), make.title(), make.quantity(), price))
    for table in ("cust", "ord", "ord_item"):
        db.execute(f"DELETE FROM {table} WHERE rowid % 17 = 5")
    db.commit()
    db.close()


if __name__ == "__main__":
    build(sys.argv[1], int(sys.argv[2]))
