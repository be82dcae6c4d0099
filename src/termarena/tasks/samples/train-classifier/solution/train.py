"""Fits a logistic regression on squares and products; writes model.json."""
import json
import math
from operator import mul

from features import READINGS, expand, read_rows, reading

TRAIN = "/app/data/train.csv"


def fit(rows, labels, decay=1e-3, rate=0.6, keep=0.9, flat=2e-2):
    """The weights, once the loss hardly falls in any direction; steps keep most of their direction."""
    columns = list(zip(*rows))
    weights = steps = [0.0] * len(columns)
    while True:
        errors = []
        for row, label in zip(rows, labels):
            z = max(-30.0, min(30.0, sum(map(mul, weights, row))))
            errors.append(1 / (1 + math.exp(-z)) - label)
        slopes = [sum(map(mul, errors, column)) / len(rows) + decay * w for column, w in zip(columns, weights)]
        if max(map(abs, slopes)) < flat:
            return weights
        steps = [keep * step - rate * slope for step, slope in zip(steps, slopes)]
        weights = [w + step for w, step in zip(weights, steps)]


def main():
    table = read_rows(TRAIN)
    scales = {}
    for name in READINGS:
        values = [v for v in (reading(name, row[name]) for row in table) if v is not None]
        mean = sum(values) / len(values)
        scales[name] = [mean, math.dist(values, [mean] * len(values)) / math.sqrt(len(values))]
    rows = [expand(row, scales) for row in table]
    labels = [int(row["label"]) for row in table]

    # Every fifth row tells how good it is on rows that it has not seen.
    seen = [i for i in range(len(rows)) if i % 5]
    held = [i for i in range(len(rows)) if not i % 5]
    trial = fit([rows[i] for i in seen], [labels[i] for i in seen])
    right = sum((sum(map(mul, trial, rows[i])) > 0) == (labels[i] == 1) for i in held)
    print("right on held-out rows: %.3f" % (right / len(held)))

    with open("/app/model.json", "w") as f:
        json.dump({"scales": scales, "weights": fit(rows, labels)}, f)


main()
