#!/bin/sh
# Tries: the rules done right, but "idempotent" only by INSERT OR IGNORE into whatever the target holds already.
cat >/app/migrate <<'PY'
#!/usr/bin/env python3
"""migrate LEGACY TARGET"""
import datetime
import os
import re
import sqlite3
import sys
from decimal import ROUND_HALF_UP, Decimal
from urllib.parse import quote

SCHEMA = """CREATE TABLE customer (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    email TEXT NOT NULL UNIQUE,
    phone TEXT,
    since TEXT
);

CREATE TABLE product (
    sku TEXT PRIMARY KEY NOT NULL,
    title TEXT NOT NULL
);

CREATE TABLE purchase (
    number INTEGER PRIMARY KEY,
    customer_id INTEGER NOT NULL REFERENCES customer (id),
    placed_on TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('open', 'paid', 'shipped', 'cancelled'))
);

CREATE TABLE purchase_line (
    purchase_number INTEGER NOT NULL REFERENCES purchase (number),
    line INTEGER NOT NULL CHECK (line > 0),
    sku TEXT NOT NULL REFERENCES product (sku),
    quantity INTEGER NOT NULL CHECK (quantity > 0),
    unit_cents INTEGER NOT NULL CHECK (unit_cents >= 0),
    PRIMARY KEY (purchase_number, line)
);

CREATE TABLE quarantine (
    source TEXT NOT NULL CHECK (source IN ('cust', 'ord', 'ord_item')),
    source_rowid INTEGER NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (source, source_rowid)
);
"""
MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
STATES = {word: state for state, words in {
    "open": "open new pending", "paid": "paid payed p", "shipped": "shipped sent done", "cancelled": "cancelled canceled void"}.items() for word in words.split()}


def trim(value):
    return "" if value is None else str(value).strip(" \t\r\n")


def words(value):
    return " ".join(trim(value).split())


def whole(pattern, text):
    return re.fullmatch(pattern, text, re.IGNORECASE | re.ASCII)


def date(value):
    text = trim(value)
    for pattern, order in ((r"(\d{4})-(\d\d)-(\d\d)([ T]\d\d:\d\d(:\d\d)?)?", "ymd"), (r"(\d{4})(\d\d)(\d\d)", "ymd"), (r"(\d\d?)/(\d\d?)/(\d{4})", "dmy"),
                           (r"(\d\d?)\.(\d\d?)\.(\d{4})", "dmy"), (r"([a-z]{3}) (\d\d?), (\d{4})", "mdy")):
        match = whole(pattern, text)
        if match:
            part = dict(zip(order, match.groups()))
            if order == "mdy":
                if part["m"].lower() not in MONTHS:
                    return None
                part["m"] = MONTHS.index(part["m"].lower()) + 1
            try:
                day = datetime.date(int(part["y"]), int(part["m"]), int(part["d"]))
            except ValueError:
                return None
            return day.isoformat() if 1990 <= day.year <= 2029 else None
    return None


def email(value):
    text = trim(value).lower()
    return text if re.fullmatch(r"[^@\s]+@[^@\s]+", text) else None


def phone(value):
    text = trim(value)
    if not whole(r"\+?[0-9 ()/.-]+", text):
        return None
    digits = re.sub("[^0-9]", "", text)
    plus = ""
    if text.startswith("+"):
        plus = "+"
    elif digits.startswith("00"):
        plus, digits = "+", digits[2:]
    return plus + digits if 7 <= len(digits) <= 15 else None


def number(value):
    match = whole(r"(?:ORD)?[-#]?([0-9]{1,12})", trim(value))
    return int(match[1]) or None if match else None


def quantity(value):
    if isinstance(value, float):
        value = int(value) if value.is_integer() else 0
    elif isinstance(value, str):
        value = int(trim(value)) if whole("[0-9]{1,9}", trim(value)) else 0
    return value if value is not None and value > 0 else None


def cents(value):
    if isinstance(value, str):
        match = whole(r"\$? ?([0-9][0-9,]*(?:\.[0-9]+)?)(?: ?USD)?", trim(value))
        if not match:
            return None
        value = Decimal(match[1].replace(",", ""))
    elif isinstance(value, float):
        value = Decimal(value)
    elif value is not None:
        value = Decimal(value)
    if value is None or value < 0:
        return None
    return int((value * 100).quantize(Decimal(1), ROUND_HALF_UP))


def customers(rows, bad):
    groups, owner, out = {}, {}, []
    for rowid, ident, name, mail, tel, since in rows:
        if email(mail) is None:
            bad.append(("cust", rowid, "bad-email"))
        else:
            groups.setdefault(email(mail), []).append((ident, words(name), phone(tel), date(since)))
    for mail, members in groups.items():
        members.sort(reverse=True, key=lambda m: m[0])
        for member in members:
            owner[member[0]] = members[-1][0]
        out.append((members[-1][0], next((m[1] for m in members if m[1]), mail.split("@")[0]), mail, next((m[2] for m in members if m[2]), None),
                    min((m[3] for m in members if m[3]), default=None)))
    return out, owner


def purchases(rows, owner, bad):
    rows = list(rows)
    last = {number(row[1]): row[0] for row in rows}
    for rowid, no, customer, placed, state in rows:
        no = number(no)
        if isinstance(customer, str):
            customer = int(trim(customer)) if whole("[0-9]+", trim(customer)) else None
        reason = (no is None and "bad-number" or last[no] != rowid and "duplicate" or customer not in owner and "orphan" or date(placed) is None and "bad-date"
                  or trim(state).lower() not in STATES and "bad-state")
        if reason:
            bad.append(("ord", rowid, reason))
        else:
            yield no, owner[customer], date(placed), STATES[trim(state).lower()]


def lines(rows, known, bad):
    found, titles = {}, {}
    for rowid, no, sku, title, qty, price in rows:
        no, sku, qty, price = number(no), trim(sku).upper(), quantity(qty), cents(price)
        reason = (no is None and "bad-number" or no not in known and "orphan" or not sku and "bad-sku" or qty is None and "bad-quantity" or price is None and "bad-price")
        if reason:
            bad.append(("ord_item", rowid, reason))
            continue
        here = found.setdefault(no, {})
        here[sku, price] = here.get((sku, price), 0) + qty
        if not titles.get(sku):
            titles[sku] = words(title)
    out = [(no, i, sku, qty, price) for no, here in found.items() for i, ((sku, price), qty) in enumerate(here.items(), 1)]
    return out, [(sku, title or sku) for sku, title in titles.items()]


def migrate(legacy, target):
    source = sqlite3.connect(f"file:{quote(os.path.abspath(legacy))}?mode=ro", uri=True)
    bad = []
    people, owner = customers(source.execute("SELECT rowid, id, full_name, email, phone, since FROM cust ORDER BY rowid"), bad)
    orders = list(purchases(source.execute("SELECT rowid, no, cust_id, placed, state FROM ord ORDER BY rowid"), owner, bad))
    items, products = lines(source.execute("SELECT rowid, ord_no, sku, title, qty, price FROM ord_item ORDER BY rowid"), {o[0] for o in orders}, bad)
    source.close()

    new = sqlite3.connect(target)
    new.executescript(SCHEMA.replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS"))
    for table, rows in (("customer", people), ("product", products), ("purchase", orders), ("purchase_line", items), ("quarantine", bad)):
        if rows:
            new.executemany(f"INSERT OR IGNORE INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)
    new.commit()
    new.close()
    print(f"customers={len(people)} products={len(products)} purchases={len(orders)} lines={len(items)} quarantined={len(bad)}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: migrate LEGACY TARGET")
    try:
        migrate(sys.argv[1], sys.argv[2])
    except (sqlite3.Error, OSError) as error:
        sys.exit(f"migrate: {error}")
PY
chmod +x /app/migrate
/app/migrate /app/legacy.db /app/new.db
