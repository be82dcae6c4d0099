"""Import of bank statements in CSV."""
import csv

from .money import parse_amount, split

HEADER = ["when", "description", "amount", "account"]


def _counterparts(text, cents):
    """Postings that balance cents on the bank account."""
    if "=" not in text:
        return [(text, -cents)]
    names, weights = [], []
    for part in text.split(";"):
        name, _, weight = part.partition("=")
        names.append(name)
        weights.append(int(weight))
    return list(zip(names, split(-cents, weights)))


def load(lines, journal, bank="assets:bank", tag=None):
    rows = [row for row in csv.reader(lines) if row]
    if not rows or rows[0] != HEADER:
        raise ValueError("no header")
    count = 0
    for row in rows[1:]:
        if len(row) != len(HEADER):
            raise ValueError(f"bad row: {row}")
        when, description, amount, account = row
        cents = parse_amount(amount)
        ident = journal.add(when, description, [(bank, cents)] + _counterparts(account, cents))
        if tag is not None:
            journal.tag(ident, tag)
        count += 1
    return count
