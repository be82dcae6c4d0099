"""Reading the tables and making features of them."""
import csv

READINGS = ["temperature", "pressure", "vibration", "humidity", "speed"]
MISSING = {"", "NA", "-999"}


def read_rows(path):
    with open(path, newline="") as f:
        return list(csv.DictReader(f))


def reading(name, text):
    """A reading as a number (temperatures in Celsius), or None."""
    text = text.strip()
    if text in MISSING:
        return None
    if name == "temperature":
        value = float(text[:-1])
        return (value - 32) * 5 / 9 if text[-1] == "F" else value
    return float(text)


def expand(row, scales):
    """1, the scaled readings (missing ones are average), their squares and products."""
    values = []
    for name in READINGS:
        value = reading(name, row[name])
        mean, spread = scales[name]
        values.append(0.0 if value is None else (value - mean) / spread)
    return [1.0] + values + [a * b for i, a in enumerate(values) for b in values[i:]]
