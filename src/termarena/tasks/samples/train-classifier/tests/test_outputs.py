"""Grades the predictions and the classifier against labels that only the tests have."""
import csv
import hashlib
import itertools
import os
import shutil
import subprocess
import time
import unittest

import guard
import labels

PROGRAM = "/app/classify"
NEEDED = 0.9
DIGESTS = {
    "/app/data/train.csv": "73ba28f245ce7ef20f0f76999ff9dc8f996b0fd0258eb08f1910845149a7a175",
    "/app/data/test.csv": "f208ce126b566dfb3413e370e6f0ad402a1e4f197d9c9f290c5ac3d6cff21776",
}
# of the ids of test.csv, in order, one in each line
IDS_DIGEST = "da8c462ec68ea00b23850a4d91840f463d2ac509eabd975b822922c28ab96840"


def classify(source, target, cwd="/"):
    done = subprocess.run([PROGRAM, source, target], cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=30,
                          **guard.WHO)
    assert done.returncode == 0, "exit status %d: %r" % (done.returncode, done.stderr[-800:])


class Case(unittest.TestCase):
    def setUp(self):
        os.umask(0o022)
        self.dir = guard.folder(self)

    def later(self):
        """A copy of the hidden batch that the program can read."""
        return shutil.copyfile(os.path.join(guard.HERE, "later.csv"), os.path.join(self.dir, "later.csv"))

    def answers(self, path):
        """The ids and labels in a file of predictions."""
        with open(path, "rb") as f:
            text = f.read().decode("ascii")
        self.assertNotIn("\r", text)
        self.assertTrue(text.endswith("\n"), "the last line is not finished")
        lines = text[:-1].split("\n")
        self.assertEqual(lines[0], "id,label")
        rows = [line.split(",") for line in lines[1:]]
        for row in rows:
            self.assertEqual(len(row), 2, row)
            self.assertIn(row[1], ("0", "1"))
        return [r[0] for r in rows], "".join(r[1] for r in rows)

    def right(self, got, want):
        self.assertEqual(len(got), len(want))
        share = sum(a == b for a, b in zip(got, want)) / len(want)
        self.assertGreaterEqual(share, NEEDED, "only %.3f of the labels are right" % share)


class Delivered(Case):
    def test_data_is_unchanged(self):
        for path, digest in DIGESTS.items():
            with open(path, "rb") as f:
                self.assertEqual(hashlib.sha256(f.read()).hexdigest(), digest, path)

    def test_predictions_have_the_ids_of_the_test_rows(self):
        ids, _ = self.answers("/app/predictions.csv")
        self.assertEqual(hashlib.sha256("".join(i + "\n" for i in ids).encode()).hexdigest(), IDS_DIGEST)

    def test_predictions_are_right_often_enough(self):
        self.right(self.answers("/app/predictions.csv")[1], labels.TEST)

    def test_predictions_are_those_of_the_program(self):
        self.assertTrue(os.access(PROGRAM, os.X_OK), "there is no program " + PROGRAM)
        target = os.path.join(self.dir, "again.csv")
        started = time.monotonic()
        classify("/app/data/test.csv", target)
        self.assertLess(time.monotonic() - started, 10)
        with open(target, "rb") as a, open("/app/predictions.csv", "rb") as b:
            self.assertTrue(a.read() == b.read(), "classify gives something else now")


class LaterBatches(Case):
    def setUp(self):
        self.assertTrue(os.access(PROGRAM, os.X_OK), "there is no program " + PROGRAM)
        super().setUp()

    def test_another_batch_with_other_column_order(self):
        """Its labels are right, and single rows get the label that they get in the batch."""
        source = self.later()
        whole, part = os.path.join(self.dir, "whole"), os.path.join(self.dir, "part")
        classify(source, whole, cwd=self.dir)
        ids, got = self.answers(whole)
        with open(source, newline="") as f:
            self.assertEqual(ids, [row["id"] for row in csv.DictReader(f)])
        self.right(got, labels.LATER)
        with open(source) as f:
            lines = f.read().splitlines()
        with open(part + ".csv", "w") as f:
            f.write("\n".join([lines[0]] + lines[201:221]) + "\n")
        classify(part + ".csv", part)
        self.assertEqual(self.answers(part)[1], got[200:220])

    def labels_at(self, places, units):
        """The labels of rows with another temperature in Celsius, written in each of the units."""
        source, target = os.path.join(self.dir, units + ".csv"), os.path.join(self.dir, units)
        with open(source, "w") as f:
            f.write("id,temperature,pressure,vibration,humidity,speed\n")
            for number, (unit, (row, celsius)) in enumerate(itertools.product(units, places)):
                text = "%.3fC" % celsius if unit == "C" else "%.4fF" % (celsius * 9 / 5 + 32)
                f.write(",".join([str(number), text] + [row[name] for name in ("pressure", "vibration", "humidity", "speed")]) + "\n")
        classify(source, target)
        return self.answers(target)[1]

    def test_temperatures_mean_the_same_in_either_unit(self):
        """Where the label of a row changes with its temperature, it does so at the same one in both units."""
        with open(self.later(), newline="") as f:
            rows = [row for row in csv.DictReader(f) if not set(row.values()) & {"", "NA", "-999"}][:12]
        coarse = [(row, 10.0 + 2 * step) for row in rows for step in range(50)]
        found = self.labels_at(coarse, "C")
        edges = [coarse[i] for i in range(len(coarse) - 1) if coarse[i][0] is coarse[i + 1][0] and found[i] != found[i + 1]][:12]
        fine = [(row, celsius + 0.04 * step) for row, celsius in edges for step in range(50)]
        if fine:
            both = self.labels_at(fine, "CF")
            differing = sum(a != b for a, b in zip(both, both[len(fine):]))
            self.assertLessEqual(differing, 0.05 * len(fine), "of %d rows" % len(fine))

    def test_rows_with_everything_missing(self):
        source, target = os.path.join(self.dir, "in.csv"), os.path.join(self.dir, "out.csv")
        with open(source, "w") as f:
            f.write("id,temperature,pressure,vibration,humidity,speed\n7,,NA,-999,NA,\n5,NA,,,,-999\n6,-999,480.5,4.1,50,1500\n")
        classify(source, target)
        self.assertEqual(self.answers(target)[0], ["7", "5", "6"])


if __name__ == "__main__":
    unittest.main()
