#!/usr/bin/env python3
"""classify INPUT.csv OUTPUT.csv"""
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from features import expand, read_rows

with open("/app/model.json") as f:
    model = json.load(f)
with open(sys.argv[2], "w", newline="") as out:
    table = read_rows(sys.argv[1])
    out.write("id,label\n")
    for row in table:
        score = sum(w * x for w, x in zip(model["weights"], expand(row, model["scales"])))
        out.write("%s,%d\n" % (row["id"], score > 0))
