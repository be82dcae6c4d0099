"""The migration as the instruction describes it, for the tests: expected(path of a legacy database) -> {table: rows}."""
import calendar
import re
import sqlite3
from fractions import Fraction

WHITE = " \t\r\n"
MONTH = {m: i for i, m in enumerate("JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".split(), 1)}
STATE = dict(open="open", new="open", pending="open", paid="paid", payed="paid", p="paid", shipped="shipped", sent="shipped", done="shipped",
             cancelled="cancelled", canceled="cancelled", void="cancelled")


def text(value):
    return ("" if value is None else value).strip(WHITE)


def tidy(value):
    return re.sub(f"[{WHITE}]+", " ", text(value))


def day(value):
    value = text(value).upper()
    m = re.fullmatch("([0-9]{4})-([0-9]{2})-([0-9]{2})(?:[ T][0-9]{2}:[0-9]{2}(?::[0-9]{2})?)?", value) or re.fullmatch("([0-9]{4})([0-9]{2})([0-9]{2})", value)
    if m:
        y, mo, d = map(int, m.groups())
    else:
        m = re.fullmatch("([0-9]{1,2})([/.])([0-9]{1,2})\\2([0-9]{4})", value)
        if m:
            y, mo, d = int(m[4]), int(m[3]), int(m[1])
        else:
            m = re.fullmatch("([A-Z]{3}) ([0-9]{1,2}), ([0-9]{4})", value)
            if not m or m[1] not in MONTH:
                return None
            y, mo, d = int(m[3]), MONTH[m[1]], int(m[2])
    if 1990 <= y <= 2029 and 1 <= mo <= 12 and 1 <= d <= calendar.monthrange(y, mo)[1]:
        return f"{y}-{mo:02}-{d:02}"
    return None


def mail(value):
    value = text(value).lower()
    left, at, right = value.partition("@")
    return value if left and right and "@" not in right and not set(value) & set(WHITE) else None


def tel(value):
    value = text(value)
    if not re.fullmatch("[+]?[-0-9 ()/.]+", value):
        return None
    digits = "".join(c for c in value if c.isdigit())
    if value[0] == "+":
        sign = "+"
    elif digits[:2] == "00":
        sign, digits = "+", digits[2:]
    else:
        sign = ""
    return sign + digits if 6 < len(digits) < 16 else None


def order_number(value):
    m = re.fullmatch("(ORD)?[-#]?([0-9]{1,12})", text(value).upper())
    return int(m[2]) if m and int(m[2]) else None


def count(value):
    if isinstance(value, str):
        value = int(text(value)) if re.fullmatch("[0-9]{1,9}", text(value)) else 0
    if value is None or value != int(value) or value <= 0:
        return None
    return int(value)


def money(value):
    if isinstance(value, str):
        m = re.fullmatch("[$]? ?([0-9][0-9,]*)([.][0-9]+)?( ?USD)?", text(value).upper())
        if not m:
            return None
        value = Fraction(m[1].replace(",", "") + (m[2] or ""))
    if value is None or value < 0:
        return None
    return int(Fraction(value) * 100 + Fraction(1, 2))


def expected(path):
    db = sqlite3.connect(path)
    bad, groups, owner = [], {}, {}
    for rowid, ident, name, email, phone, since in db.execute("SELECT rowid, * FROM cust"):
        if mail(email):
            groups.setdefault(mail(email), {})[ident] = (tidy(name), tel(phone), day(since))
        else:
            bad.append(("cust", rowid, "bad-email"))
    customers = []
    for email, rows in groups.items():
        first = min(rows)
        owner.update(dict.fromkeys(rows, first))
        names = [rows[i][0] for i in sorted(rows) if rows[i][0]] or [email[:email.index("@")]]
        phones = [rows[i][1] for i in sorted(rows) if rows[i][1]] or [None]
        dates = sorted(r[2] for r in rows.values() if r[2]) or [None]
        customers.append((first, names[-1], email, phones[-1], dates[0]))
    orders = db.execute("SELECT rowid, * FROM ord ORDER BY rowid DESC").fetchall()
    purchases, seen = {}, set()
    for rowid, no, cust, placed, state in orders:
        n = order_number(no)
        if isinstance(cust, str):
            cust = int(text(cust)) if re.fullmatch("[0-9]+", text(cust)) else None
        if n is None:
            reason = "bad-number"
        elif n in seen:
            reason = "duplicate"
        elif cust not in owner:
            reason = "orphan"
        elif day(placed) is None:
            reason = "bad-date"
        elif text(state).lower() not in STATE:
            reason = "bad-state"
        else:
            reason = None
            purchases[n] = (n, owner[cust], day(placed), STATE[text(state).lower()])
        seen.add(n)
        if reason:
            bad.append(("ord", rowid, reason))
    sums, titles = {}, {}
    for rowid, no, sku, title, qty, price in db.execute("SELECT rowid, * FROM ord_item ORDER BY rowid"):
        n, sku = order_number(no), text(sku).upper()
        if n is None:
            reason = "bad-number"
        elif n not in purchases:
            reason = "orphan"
        elif sku == "":
            reason = "bad-sku"
        elif count(qty) is None:
            reason = "bad-quantity"
        elif money(price) is None:
            reason = "bad-price"
        else:
            key = (n, sku, money(price))
            sums.setdefault(key, []).append(count(qty))
            titles.setdefault(sku, []).append(tidy(title))
            continue
        bad.append(("ord_item", rowid, reason))
    db.close()
    lines, position = [], {}
    for (n, sku, cents), quantities in sums.items():
        position[n] = position.get(n, 0) + 1
        lines.append((n, position[n], sku, sum(quantities), cents))
    products = [(sku, next((t for t in found if t), sku)) for sku, found in titles.items()]
    return {"customer": sorted(customers), "product": sorted(products), "purchase": sorted(purchases.values()), "purchase_line": sorted(lines), "quarantine": sorted(bad)}
