#!/usr/bin/env python3
"""measure.py DATABASE QUERY REGION FIRST LAST [INDEXES]

Runs QUERY (a file) on a copy of DATABASE in memory, after the statements in the file INDEXES, if given. Prints the rows as tab-separated text to standard
output, and the number of virtual-machine steps that the query took (rounded up to hundreds) to standard error.
"""
import sqlite3
import sys


def main():
    if len(sys.argv) not in (6, 7):
        sys.exit(__doc__)
    database, query, region, first, last = sys.argv[1:6]
    source = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    db = sqlite3.connect(":memory:")
    source.backup(db)
    if len(sys.argv) == 7:
        with open(sys.argv[6]) as file:
            db.executescript(file.read())
    with open(query) as file:
        text = file.read()
    steps = 0

    def count():
        nonlocal steps
        steps += 100
        return 0

    db.set_progress_handler(count, 100)
    cursor = db.execute(text, {"region": region, "first": first, "last": last})
    rows = cursor.fetchall()
    db.set_progress_handler(None, 0)
    print(*(column[0] for column in cursor.description), sep="\t")
    for row in rows:
        print(*("NULL" if value is None else value for value in row), sep="\t")
    print(f"steps: {steps + 100}", file=sys.stderr)


main()
