"""make_train.py BASE OUTPUT: the training table as it was exported.

Shuffles the rows, adds the code that inspection writes afterwards, puts in the
two units of temperature and the marks of missing values. Always the same bytes.
"""
import sys

COLUMNS = ["temperature", "pressure", "vibration", "humidity", "speed"]
state = 5150


def rnd(n):
    global state
    state = (state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
    return (state >> 33) % n


def main(base, output):
    with open(base) as f:
        names = f.readline().rstrip("\n").split(",")
        rows = [dict(zip(names, line.rstrip("\n").split(","))) for line in f]
    for i in range(len(rows) - 1, 0, -1):
        j = rnd(i + 1)
        rows[i], rows[j] = rows[j], rows[i]
    with open(output, "w") as f:
        f.write(",".join(["id"] + COLUMNS + ["inspection_code", "label"]) + "\n")
        for row in rows:
            cells = [row["id"]]
            for name in COLUMNS:
                text = row[name]
                if rnd(20) == 0:
                    text = ("", "NA", "-999")[rnd(3)]
                elif name == "temperature":
                    text = "%.1fF" % (float(text) * 9 / 5 + 32) if rnd(10) < 3 else "%.1fC" % float(text)
                cells.append(text)
            kind = "XQ" if row["label"] == "1" else "AC"
            f.write(",".join(cells + ["%s%d" % (kind[rnd(2)], 1 + rnd(9)), row["label"]]) + "\n")


main(*sys.argv[1:])
