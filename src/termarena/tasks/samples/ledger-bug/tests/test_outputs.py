import hashlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import unittest

import guard

SHA = {
    "/app/ledger/README.md": "72a70deb80eb4285cac921d9262c23deb30c1d14e19463b1fe7af080492833a3",
    "/app/examples/bank.csv": "fc3ea55b9b6be75f12c3ad10735f44b1ed0052c56917c762f95343f22e4a4953",
    "/app/examples/run.py": "463f2e2a407b1a094390bc3d6f5d8044521fa7dc5f6ff1ea0f57e540aa4267b6",
    "/app/examples/february.txt": "e67624ae8b74aedf023c5380a787441b4af62e573c8e5dff263e8a594c75a57d",
}
PRELUDE = """
import datetime, json, sys
sys.path.insert(0, "/app")
from ledger import Journal, format_amount, month_report, parse_amount, render, split, trial_balance
from ledger.importer import load
from datetime import date, datetime as dt, timedelta, timezone

def error(function, *arguments, **named):
    try:
        function(*arguments, **named)
    except Exception as problem:
        return type(problem).__name__
    return None

def two(journal, when, cents=100, account="assets:bank", other="income", **more):
    return journal.add(when, "x", [(account, cents), (other, -cents)], **more)
"""


# Each piece of code runs in a process of its own, which has the package imported already.
SERVER = PRELUDE + """
import os, signal, traceback
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        names = dict(globals())
        try:
            exec(json.loads(line), names)
            told = {"result": names["result"]}
        except Exception:
            told = {"error": traceback.format_exc()[-800:]}
        print(json.dumps(told), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
    print("end", flush=True)
"""


def example():
    """What the example prints, and what it should."""
    with open(os.path.join(guard.HERE, "february.txt")) as file:
        want = file.read()
    status, out, err = guard.run([sys.executable, "-B", "/app/examples/run.py"], "/")
    return (status, out.decode(errors="replace")), (0, want), err.decode(errors="replace")[-800:]


def setUpModule():
    """Where the example fails, all has failed."""
    global SERVING
    got, want, err = example()
    if got != want:
        raise AssertionError(f"the example ends with {got[0]} and prints:\n{got[1][-1500:]}{err}")
    folder = guard.give(tempfile.mkdtemp(dir="/tmp"))
    unittest.addModuleCleanup(shutil.rmtree, folder, ignore_errors=True)
    SERVING = subprocess.Popen([sys.executable, "-I", "-B", "-c", SERVER], cwd=folder, env=guard.ENV, start_new_session=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, **guard.WHO)
    unittest.addModuleCleanup(stop_serving)


def stop_serving():
    try:
        os.killpg(SERVING.pid, signal.SIGKILL)
    except OSError:
        pass
    SERVING.communicate()


class Case(unittest.TestCase):
    maxDiff = None

    def run_code(self, code):
        """The value that code leaves in `result`, by way of JSON."""
        SERVING.stdin.write(json.dumps(textwrap.dedent(code)).encode() + b"\n")
        SERVING.stdin.flush()
        said = b""
        while not said.endswith(b"end\n"):
            self.assertTrue(select.select([SERVING.stdout], [], [], 20)[0], "no answer")
            more = os.read(SERVING.stdout.fileno(), 65536)
            self.assertTrue(more, "the package cannot be imported, or ends the process that uses it")
            said += more
        told = json.loads(said[:-4] or b'{"error": "the process ended"}')
        self.assertIn("result", told, told.get("error"))
        return told["result"]

    def check(self, code, want):
        self.assertEqual(self.run_code(code), want)


class Example(unittest.TestCase):
    def test_given_files_are_unchanged(self):
        for path, digest in SHA.items():
            with open(path, "rb") as file:
                self.assertEqual(hashlib.sha256(file.read()).hexdigest(), digest, path)

    def test_modules_are_there(self):
        for name in ("__init__", "money", "journal", "importer", "reports"):
            self.assertTrue(os.path.isfile(f"/app/ledger/{name}.py"), name)


class Money(Case):
    def test_every_cent_is_parsed(self):
        self.check("""
            wrong = [c for c in range(0, 12000) if parse_amount(f"{c // 100}.{c % 100:02}") != c or parse_amount(f"-{c // 100}.{c % 100:02}") != -c]
            result = wrong[:5]
        """, [])

    def test_forms_of_amounts(self):
        amounts = {"12": 1200, "12.5": 1250, "-1,234.50": -123450, "+3.999": 400, "(12.50)": -1250, " 7.25 ": 725, "0": 0, "1,2,3.00": 12300, "007.10": 710, "(0.29)": -29, "4.35": 435, "1.15": 115}
        self.check(f"result = [parse_amount(t) for t in {list(amounts)!r}]", list(amounts.values()))

    def test_rounding_is_half_away_from_zero(self):
        amounts = {"0.005": 1, "-0.005": -1, "0.0049": 0, "1.005": 101, "2.675": 268, "-2.675": -268, "0.015": 2, "0.025": 3, "1.0049999999999999999999": 100, "(1.005)": -101, "0.994": 99, "0.995": 100,
                   "9.999": 1000, "-9.995": -1000, "8.115": 812}
        self.check(f"result = [parse_amount(t) for t in {list(amounts)!r}]", list(amounts.values()))

    def test_amounts_of_any_size(self):
        self.check("""
            result = [parse_amount("90071992547409931.29"), parse_amount("-123,456,789,012,345,678,901.23"), parse_amount("99999999999999999999.995"),
                      format_amount(9007199254740993129), format_amount(-12345678901234567890123), parse_amount(format_amount(10**40 + 7)) - 10**40]
        """, [9007199254740993129, -12345678901234567890123, 10000000000000000000000, "90,071,992,547,409,931.29", "-123,456,789,012,345,678,901.23", 7])

    def test_bad_amounts(self):
        bad = ["", " ", "x", "1.", ".5", "1,", ",1", "1,,2", "--1", "-(1)", "(-1)", "(+1)", "(1", "1)", "1 0", "1e3", "1.5.2", "1.5,0", "$1", "nan", "inf", "1_0", "- 1", "()"]
        self.check(f"result = [t for t in {bad!r} if error(parse_amount, t) != 'ValueError']", [])

    def test_format(self):
        self.check("result = [format_amount(c) for c in (0, 5, -5, 99, 100, -123450, 123456789, -100000)]", ["0.00", "0.05", "-0.05", "0.99", "1.00", "-1,234.50", "1,234,567.89", "-1,000.00"])

    def test_split_gives_leftover_cents_to_the_largest_remainders(self):
        cases = [(100, [1, 1, 1], [34, 33, 33]), (101, [1, 1, 1], [34, 34, 33]), (100, [1, 1, 4], [17, 17, 66]), (10, [3, 3, 3, 1], [3, 3, 3, 1]), (5, [1, 1], [3, 2]), (-5, [1, 1], [-3, -2]),
                 (-100, [1, 1, 1], [-34, -33, -33]), (1, [0, 0, 5], [0, 0, 1]), (2, [1, 0, 1, 1], [1, 0, 1, 0]), (0, [1, 2], [0, 0]), (7, [5], [7]), (50, [1, 2, 4], [7, 14, 29]),
                 (-123456, [2, 1], [-82304, -41152]), (99, [10, 20, 30, 40], [10, 20, 30, 39]), (3, [1] * 7, [1, 1, 1, 0, 0, 0, 0]), (15, [1, 1, 1, 1], [4, 4, 4, 3])]
        self.check(f"result = [split(c, w) for c, w, _ in {cases!r}]", [want for _, _, want in cases])

    def test_split_is_exact_for_any_size(self):
        n = 10**30 + 1
        self.check(f"result = [split({n}, [1, 2]), split(-{n}, [1, 1]), split(3 * 10**20 + 2, [10**18, 10**18, 10**18])]",
                   [[n // 3 + 1, n - n // 3 - 1], [-(n + 1) // 2, -(n - 1) // 2], [10**20 + 1, 10**20 + 1, 10**20]])

    def test_split_refuses_bad_weights(self):
        self.check("result = [error(split, 10, w) for w in ([], [0], [0, 0], [1, -1], [5, -1])]", ["ValueError"] * 5)


class Entries(Case):
    def test_ids_count_up_and_bad_entries_use_none(self):
        self.check("""
            j = Journal()
            result = [two(j, "2024-01-01"), error(j.add, "2024-01-01", "x", [("a", 1), ("b", -2)]), error(j.add, "2024-01-01", "x", [("a", 0)]), error(j.add, "2024-01-01", "x", [("a", 1.0), ("b", -1.0)]),
                      error(j.add, "2024-01-01", "x", [("a", True), ("b", -1)]), two(j, "2024-01-02"), len(j.entries()), j.balance("a"), error(j.get, 3)]
        """, [1, "ValueError", "ValueError", "ValueError", "ValueError", 2, 2, 0, "KeyError"])

    def test_entries_keep_nothing_of_the_callers_lists(self):
        self.check("""
            j = Journal()
            postings, tags = [["a", 5], ["b", -5]], ["t"]
            i = j.add(date(2024, 1, 1), "x", postings, tags)
            postings[0][1] = 99
            postings.append(["c", 1])
            tags.append("u")
            k = j.add(date(2024, 1, 1), "y", [("a", 1), ("b", -1)], tags)
            j.tag(i, "own")
            e = j.get(i)
            result = [e.postings == (("a", 5), ("b", -5)), isinstance(e.postings, tuple), e.tags, j.get(k).tags, tags, j.balance("a"), j.void("u"), len(j.entries())]
        """, [True, True, ["t", "own"], ["t", "u"], ["t", "u"], 6, 1, 1])

    def test_tags_belong_to_one_entry(self):
        self.check("""
            j, other = Journal(), Journal()
            ids = [two(j, "2024-01-01") for _ in range(4)]
            away = two(other, "2024-01-01")
            j.tag(ids[1], "x"); j.tag(ids[1], "y"); j.tag(ids[1], "x"); j.tag(ids[3], "y")
            result = [[j.get(i).tags for i in ids], other.get(away).tags, error(j.tag, 77, "x"), j.get(two(j, "2024-01-01", tags=("a", "b", "a"))).tags]
        """, [[[], ["x", "y"], [], ["y"]], [], "KeyError", ["a", "b"]])

    def test_void_removes_all_with_the_tag_and_only_these(self):
        self.check("""
            j = Journal()
            for n in range(12):
                two(j, "2024-01-01", 10 ** n, tags=["even"] if n % 2 == 0 else ["low"] if n < 6 else ())
            for n in (7, 8, 9):
                j.tag(n + 1, "run")
            result = [j.balance("assets"), j.void("run"), j.void("run"), j.balance("assets"), j.void("low"), [e.id for e in j.entries()], j.void("even"), j.balance("assets"), two(j, "2024-01-01"), j.void("nothing")]
        """, [111111111111, 3, 0, 110001111111, 3, [1, 3, 5, 7, 11, 12], 5, 100000000000, 13, 0])

    def test_void_of_neighbours(self):
        self.check("""
            j = Journal()
            for n in range(9):
                two(j, "2024-01-01", tags=["gone"] if n not in (0, 5) else ["stays"])
            result = [j.void("gone"), [e.id for e in j.entries()], trial_balance(j)]
        """, [7, [1, 6], [["assets:bank", 200], ["income", -200]]])

    def test_order_and_limits_of_entries(self):
        self.check("""
            j = Journal()
            for when in ("2024-03-01", "2024-01-31", "2024-02-29", "2024-02-01", "2024-01-31"):
                two(j, when)
            ids = lambda **more: [e.id for e in j.entries(**more)]
            result = [ids(), ids(first=date(2024, 2, 1)), ids(last=date(2024, 2, 29)), ids(first=date(2024, 2, 1), last=date(2024, 2, 29)), ids(account="income"), ids(account="inc"), j.accounts()]
        """, [[2, 5, 4, 3, 1], [4, 3, 1], [2, 5, 4, 3], [4, 3], [2, 5, 4, 3, 1], [], ["assets:bank", "income"]])


class Balances(Case):
    def test_journals_are_independent(self):
        self.check("""
            a, b = Journal(), Journal()
            two(a, "2024-01-01", 500)
            first = a.balance("assets")
            empty = b.balance("assets")
            two(b, "2024-01-01", 70)
            result = [first, empty, a.balance("assets"), b.balance("assets"), a.balance("assets", date(2024, 1, 1)), b.balance("assets", date(2024, 1, 1)), Journal().balance("assets"), Journal().entries()]
        """, [500, 0, 500, 70, 500, 70, 0, []])

    def test_balance_follows_every_change(self):
        self.check("""
            j = Journal()
            seen = [j.balance("assets")]
            two(j, "2024-01-01", 500, tags=["t"]); seen.append(j.balance("assets"))
            two(j, "2024-01-02", 30); seen.append(j.balance("assets"))
            j.void("t"); seen.append(j.balance("assets"))
            j.tag(2, "u"); j.void("u"); seen.append(j.balance("assets"))
            result = seen
        """, [0, 500, 530, 30, 0])

    def test_sub_accounts(self):
        self.check("""
            j = Journal()
            two(j, "2024-01-01", 1, "assets:bank"); two(j, "2024-01-01", 20, "assets:bank:savings"); two(j, "2024-01-01", 300, "assets:bankrupt"); two(j, "2024-01-01", 4000, "assets:bank", "assets:bank:savings")
            result = [j.balance(a) for a in ("assets", "assets:bank", "assets:bank:savings", "assets:bankrupt", "asset", "income")] + [trial_balance(j), len(j.entries(account="assets:bank"))]
        """, [321, 21, -3980, 300, 0, -321, [["assets:bank", 4001], ["assets:bank:savings", -3980], ["assets:bankrupt", 300], ["income", -321]], 3])

    def test_trial_balance_on_a_date(self):
        self.check("""
            j = Journal()
            two(j, "2024-01-31", 10); two(j, "2024-02-01", -10); two(j, "2024-02-01", 7, "z", "a")
            result = [trial_balance(j, date(2024, 1, 31)), trial_balance(j, date(2024, 2, 1)), trial_balance(j)]
        """, [[["assets:bank", 10], ["income", -10]], [["a", -7], ["z", 7]], [["a", -7], ["z", 7]]])


class Dates(Case):
    def booked(self, offset, *times):
        return self.run_code(f"""
            j = Journal(utc_offset={offset})
            result = [str(j.get(two(j, when)).date) for when in [{', '.join(times)}]]
        """)

    def test_texts_with_a_zone(self):
        self.assertEqual(self.booked(60, *map(repr, ["2024-01-31T22:59:59Z", "2024-01-31T23:00Z", "2024-02-01T00:30:00+02:00", "2024-02-01T01:00+02:00", "2023-12-31T18:30:00-05:00", "2024-02-29T23:59:59+01:00",
                                                     "2024-03-01T00:00:00+01:00", "2024-03-01T12:59+14:00"])),
                         ["2024-01-31", "2024-02-01", "2024-01-31", "2024-02-01", "2024-01-01", "2024-02-29", "2024-03-01", "2024-02-29"])

    def test_books_are_in_utc_by_default(self):
        self.assertEqual(self.run_code("""
            j = Journal()
            result = [str(j.get(two(j, when)).date) for when in ["2024-02-29T23:59:59Z", "2024-03-01T00:00:00Z"]]
        """), ["2024-02-29", "2024-03-01"])

    def test_texts_without_a_zone(self):
        for offset in (0, 60, -720, 840):
            self.assertEqual(self.booked(offset, *map(repr, ["2024-02-29", "2024-02-29T00:00", "2024-02-29T23:59:59", "2024-12-31T23:59"])), ["2024-02-29", "2024-02-29", "2024-02-29", "2024-12-31"])

    def test_negative_offset_of_the_books(self):
        self.assertEqual(self.booked(-210, *map(repr, ["2024-03-01T03:29:59Z", "2024-03-01T03:30:00Z", "2024-01-01T00:00:00+01:00"])), ["2024-02-29", "2024-03-01", "2023-12-31"])

    def test_dates_and_datetimes(self):
        self.assertEqual(self.booked(60, "date(2024, 2, 29)", "dt(2024, 2, 29, 23, 59)", "dt(2024, 2, 29, 23, 59, tzinfo=timezone.utc)", "dt(2024, 3, 1, 0, 30, tzinfo=timezone(timedelta(hours=2)))"),
                         ["2024-02-29", "2024-02-29", "2024-03-01", "2024-02-29"])

    def test_entry_dates_are_plain_dates(self):
        self.check("""
            j = Journal(60)
            result = [type(j.get(two(j, w)).date) is date for w in ("2024-01-01", "2024-01-01T10:00Z", date(2024, 1, 1), dt(2024, 1, 1, 5))]
        """, [True] * 4)


class Months(Case):
    def test_every_month_has_its_own_days(self):
        self.check("""
            j = Journal()
            day = date(2023, 1, 1)
            while day < date(2025, 1, 1):
                two(j, day)
                day += timedelta(1)
            result = [month_report(j, "assets", f"{y}-{m:02}")["entries"] for y in (2023, 2024) for m in range(1, 13)]
        """, [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])

    def test_reports_of_successive_months_fit(self):
        self.check("""
            j = Journal()
            day, n = date(2023, 11, 15), 0
            while day < date(2024, 6, 1):
                n += 1
                two(j, day, n * 7 % 1000 - 400)
                day += timedelta(1)
            reports = [month_report(j, "assets", m) for m in ("2023-10", "2023-11", "2023-12", "2024-01", "2024-02", "2024-03", "2024-04", "2024-05", "2024-06")]
            result = [all(a["closing"] == b["opening"] for a, b in zip(reports, reports[1:])), all(r["opening"] + r["debits"] + r["credits"] == r["closing"] for r in reports), reports[0]["closing"],
                      reports[-1]["closing"] == j.balance("assets"), sum(r["entries"] for r in reports) == n]
        """, [True, True, 0, True, True])

    def test_report_of_one_month(self):
        self.check("""
            j = Journal()
            for when, cents in (("2024-03-31", 1000), ("2024-04-01", 20), ("2024-04-02", 1), ("2024-04-30", -3), ("2024-05-01", 70000)):
                two(j, when, cents)
            j.add("2024-04-15", "inside", [("assets:bank", -500), ("assets:cash", 500)])
            r, s = month_report(j, "assets", "2024-04"), month_report(j, "assets:bank", "2024-04")
            result = [[r[k] for k in ("opening", "debits", "credits", "closing", "entries")], [s[k] for k in ("opening", "debits", "credits", "closing", "entries")], render(s)]
        """, [[1000, 521, -503, 1018, 4], [1000, 21, -503, 518, 4],
              "assets:bank 2024-04 (4 entries)\n  opening             10.00\n  debits               0.21\n  credits             -5.03\n  closing              5.18\n"])

    def test_report_after_a_late_change(self):
        self.check("""
            j = Journal()
            two(j, "2024-01-10", 100, tags=["x"]); two(j, "2024-02-10", 10)
            before = month_report(j, "assets", "2024-02")
            j.void("x")
            after = month_report(j, "assets", "2024-02")
            result = [before["opening"], before["closing"], after["opening"], after["closing"]]
        """, [100, 110, 0, 10])


class Import(Case):
    HEADER = "when,description,amount,account\\n"

    def test_rows_and_shares(self):
        self.check(f"""
            j = Journal(60)
            lines = ["{self.HEADER}", '2024-01-31T23:30Z,"Shop, web",-0.29,costs:office\\n', "\\n", "2024-02-01,Rent,-100.00,costs:rent=1;costs:heating=1;costs:water=1\\n", "2024-02-02,Pay,(1.005),a=0;b=3\\n"]
            n = load(lines, j, bank="assets:giro")
            result = [n, [[str(e.date), e.description, e.postings, e.tags] for e in j.entries()]]
        """, [3, [["2024-02-01", "Shop, web", [["assets:giro", -29], ["costs:office", 29]], []],
                  ["2024-02-01", "Rent", [["assets:giro", -10000], ["costs:rent", 3334], ["costs:heating", 3333], ["costs:water", 3333]], []],
                  ["2024-02-02", "Pay", [["assets:giro", -101], ["a", 0], ["b", 101]], []]]])

    def test_tag_goes_to_the_imported_entries_only(self):
        self.check(f"""
            j, k = Journal(), Journal()
            mine = two(j, "2024-01-01")
            load(["{self.HEADER}", "2024-01-02,x,1,a\\n", "2024-01-03,x,2,a\\n", "2024-01-04,x,3,a\\n"], j, tag="one")
            load(["{self.HEADER}", "2024-01-02,x,10,a\\n", "2024-01-03,x,20,a\\n"], j, tag="two")
            load(["{self.HEADER}", "2024-01-02,x,10,a\\n"], k)
            late = two(j, "2024-01-05")
            result = [[e.tags for e in j.entries()], [e.tags for e in k.entries()], j.void("one"), j.balance("a"), j.void("two"), [e.id for e in j.entries()] == [mine, late]]
        """, [[[], ["one"], ["two"], ["one"], ["two"], ["one"], []], [[]], 3, -3000, 2, True])

    def test_a_bad_row_records_nothing(self):
        self.check(f"""
            result = []
            for bad in ("2024-01-03,x,1\\n", "2024-01-03,x,one,a\\n", "yesterday,x,1,a\\n", "2024-02-30,x,1,a\\n", "2024-01-03,x,1,a=0;b=0\\n", "2024-01-03,x,1,a=x\\n", "2024-01-03,x,1,a,b\\n"):
                j = Journal()
                result.append([error(load, ["{self.HEADER}", "2024-01-02,x,1,a\\n", bad, "2024-01-04,x,1,a\\n"], j, tag="t"), len(j.entries()), two(j, "2024-01-01")])
        """, [["ValueError", 0, 1]] * 7)

    def test_header_is_needed_and_a_header_alone_is_fine(self):
        self.check(f"""
            j = Journal()
            result = [error(load, [], j), error(load, ["2024-01-02,x,1,a\\n"], j), load(["{self.HEADER}"], j), len(j.entries())]
        """, ["ValueError", "ValueError", 0, 0])


if __name__ == "__main__":
    unittest.main()
