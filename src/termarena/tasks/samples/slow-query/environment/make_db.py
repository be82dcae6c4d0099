"""Makes the sample database: make_db.py SCHEMA FILE. Always the same one."""
import datetime
import random
import sqlite3
import sys

rng = random.Random(90210)


def below(n):
    return int(rng.random() * n)


REGIONS = ["north"] * 8 + ["south"] * 20 + ["east"] * 12 + ["west"] * 16 + ["islands"] * 2 + ["centre"] * 32 + ["coast"] * 24
START = datetime.datetime(2021, 1, 1)

with open(sys.argv[1]) as file:
    schema = file.read()
db = sqlite3.connect(sys.argv[2])
db.executescript(schema)
db.executemany("INSERT INTO customers VALUES (?, ?, ?, ?)",
               [(i, f"Customer {i}", REGIONS[below(len(REGIONS))], 1 + below(400) if below(3) else None) for i in range(1, 401)])
db.executemany("INSERT INTO products VALUES (?, ?)", [(i, "tools garden kitchen toys books music".split()[below(6)]) for i in range(1, 301)])
orders, lines, payments = [], [], []
for i in range(1, 8001):
    when = START + datetime.timedelta(seconds=below(3 * 365 * 86400))
    orders.append((i, 1 + below(400), str(when), ["open", "paid", "paid", "sent", "sent", "sent", "void"][below(7)]))
    for _ in range(1 + below(5)):
        lines.append((i, 1 + below(300), 1 + below(6), 100 + below(9000) if below(12) else -50 - below(400)))
    if below(8):
        payments.append((i, "charge", 500 + below(30000), str((when + datetime.timedelta(days=below(9))).date()) if below(10) else None))
    if below(15) == 0:
        payments.append((i, "refund", 100 + below(5000), str(when.date())))
db.executemany("INSERT INTO orders VALUES (?, ?, ?, ?)", orders)
db.executemany("INSERT INTO lines VALUES (NULL, ?, ?, ?, ?)", lines)
db.executemany("INSERT INTO payments VALUES (NULL, ?, ?, ?, ?)", payments)
db.executemany("INSERT INTO blocked VALUES (?, ?)", [(1 + below(400), None if below(3) == 0 else f"202{below(5)}-06-30") for _ in range(25)])
db.commit()
db.close()
