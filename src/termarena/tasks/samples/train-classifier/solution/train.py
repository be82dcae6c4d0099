"""Fits a logistic regression on squares and products; writes model.json."""
import json
import math

from features import READINGS, expand, read_rows, reading

TRAIN = "/app/data/train.csv"


def fit(rows, labels, weights_decay=1e-3, rounds=400, rate=0.3):
    weights = [0.0] * len(rows[0])
    for _ in range(rounds):
        slope = [0.0] * len(weights)
        for row, label in zip(rows, labels):
            z = max(-30.0, min(30.0, sum(w * x for w, x in zip(weights, row))))
            error = 1 / (1 + math.exp(-z)) - label
            for j, x in enumerate(row):
                slope[j] += error * x
        weights = [w - rate * (s / len(rows) + weights_decay * w) for w, s in zip(weights, slope)]
    return weights


def main():
    table = read_rows(TRAIN)
    scales = {}
    for name in READINGS:
        values = [v for v in (reading(name, row[name]) for row in table) if v is not None]
        mean = sum(values) / len(values)
        scales[name] = [mean, math.sqrt(sum((v - mean) ** 2 for v in values) / len(values))]
    rows = [expand(row, scales) for row in table]
    labels = [int(row["label"]) for row in table]

    # Every fifth row tells how good it is on rows that it has not seen.
    seen = [i for i in range(len(rows)) if i % 5]
    held = [i for i in range(len(rows)) if not i % 5]
    trial = fit([rows[i] for i in seen], [labels[i] for i in seen])
    right = sum((sum(w * x for w, x in zip(trial, rows[i])) > 0) == (labels[i] == 1) for i in held)
    print("right on held-out rows: %.3f" % (right / len(held)))

    with open("/app/model.json", "w") as f:
        json.dump({"scales": scales, "weights": fit(rows, labels)}, f)


main()
