"""Writes the sample table: gen_orders.py OUTPUT. Always the same bytes."""
import sys

state = 20240611


def rnd(n):
    """A number from 0 to n-1 (own generator: the same on every version)."""
    global state
    state = (state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
    return (state >> 33) % n


def quote(text):
    return '"' + text.replace('"', '""') + '"'


CITIES = ["Oslo", "Porto", "Lyon", "Graz", "Ghent", "K\u00f6ln", "\u0141\u00f3d\u017a", "Brno, CZ", "Sao \"SP\" Paulo"]
NOTES = ["leave at door", "call first,\nthen ring", "fragile \"glass\"", "two\r\nlines", " padded ", "N/A", "0", "caf\u00e9"]
STATUS = ["new", "paid", "sent", "lost"]


def text(value):
    if any(c in value for c in ",\"\r\n") or rnd(9) == 0:
        return quote(value)
    return value


def main(path):
    out = ["\ufeff" + ",".join(["order_id", "zip", "city", '"ordered, on"', "amount", "qty", "weight", "note", "status", "promised", "reserved"]) + "\n"]
    for i in range(3456):
        amount = "%s%d.%0*d" % ("-" if rnd(25) == 0 else "", rnd(5000), 1 + rnd(2), rnd(10)) if rnd(4) else str(rnd(900))
        year, month, day = 1965 + rnd(60), 1 + rnd(12), 1 + rnd(28)
        note = "" if rnd(3) else text(NOTES[rnd(len(NOTES))])
        if rnd(50) == 0:
            note = '""'
        row = [
            str(100000 + i * 7),
            "%05d" % rnd(40000),
            text(CITIES[rnd(len(CITIES))]) if rnd(20) else "",
            "%04d-%02d-%02d" % (year, month, day),
            amount,
            quote(str(rnd(12) - 1)) if rnd(7) == 0 else str(rnd(12) - 1),
            "" if i < 1000 and rnd(5) == 0 else "%d.%03d" % (rnd(90), rnd(1000)),
            note,
            STATUS[rnd(4)] if i < 2000 else STATUS[rnd(2)],
            "2023-02-%02d" % (26 + rnd(3)) if i != 3111 else "2023-02-29",
            "",
        ]
        out.append(",".join(row) + ("\r\n" if rnd(3) == 0 else "\n"))
        if rnd(200) == 0:
            out.append("\n")
    with open(path, "w", encoding="utf-8", newline="") as f:
        f.write("".join(out).rstrip("\r\n"))


main(sys.argv[1])
