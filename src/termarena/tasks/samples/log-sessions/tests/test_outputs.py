import calendar
import hashlib
import itertools
import os
import random
import re
import shutil
import tempfile
import time
import unittest

import guard

LOG_SHA = "181fbda59109388fd89d32fdce3fca1d4b4a1cb0c142d929a571924f253d8d11"
REPORT_SHA = "24c49270daa44e4b5d2b74761d0949217fd63db185de6d7ce27a70ee0d02d8ad"
REJECTS_SHA = "a97e275ebd95e5d311f63251a7278123860b5d628a9ab36afceb8dcb85a3dd26"

SCRIPT = "/app/sessions.sh"
COREUTILS = """[ arch b2sum base32 base64 basename basenc cat chgrp chmod chown cksum comm cp csplit cut date dd df dir dircolors dirname du echo env
expand expr factor false fmt fold groups head hostid id install join link ln logname ls md5sum mkdir mkfifo mknod mktemp mv nice nl nohup nproc numfmt od
paste pathchk pinky pr printenv printf ptx pwd readlink realpath rm rmdir runcon seq sha1sum sha224sum sha256sum sha384sum sha512sum shred shuf sleep sort
split stat stdbuf stty sum sync tac tail tee test timeout touch tr true truncate tsort tty uname unexpand uniq unlink uptime users vdir wc who whoami
yes sh awk""".split()

WELL_FORMED = re.compile(
    r'([^ ]+) [^ ]+ [^ ]+ \[([0-9][0-9])/(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)/([0-9]{4}):([0-9][0-9]):([0-9][0-9]):([0-9][0-9]) \+0000\] '
    r'"[A-Z]+ (/[^ "]*) HTTP/[0-9.]+" ([0-9]{3}) ([0-9]+|-) "[^"]*" "[^"]*"')
MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()


def seconds(day, month, year, h, m, s):
    return calendar.timegm((int(year), MONTHS.index(month) + 1, int(day), int(h), int(m), int(s)))


def iso(t):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(t))


def reference(text):
    rejects, requests = [], {}
    for line in text.split("\n")[:-1]:
        match = WELL_FORMED.fullmatch(line)
        if not match:
            rejects.append(line + "\n")
            continue
        client, *when, target, status, size = match.groups()
        requests.setdefault(client, []).append((seconds(*when), target.split("?")[0], int(status), 0 if size == "-" else int(size)))
    rows = []
    for client, events in requests.items():
        events.sort()
        session = []
        for event in events + [None]:
            if session and (event is None or event[0] - session[-1][0] > 1800):
                paths = [e[1] for e in session]
                top = min(set(paths), key=lambda p: (-paths.count(p), p))
                rows.append((session[0][0], client, session[-1][0], len(session), sum(e[2] >= 400 for e in session), sum(e[3] for e in session), top))
                session = []
            session.append(event)
    rows.sort()
    report = "".join(f"{c}\t{iso(a)}\t{iso(b)}\t{n}\t{errors}\t{size}\t{top}\n" for a, c, b, n, errors, size, top in rows)
    return report, "".join(rejects)


def clf(t):
    g = time.gmtime(t)
    return f"{g.tm_mday:02}/{MONTHS[g.tm_mon - 1]}/{g.tm_year}:{g.tm_hour:02}:{g.tm_min:02}:{g.tm_sec:02} +0000"


def entry(client, t, target="/", status=200, size="10", agent="x", method="GET"):
    return f'{client} - - [{clf(t)}] "{method} {target} HTTP/1.1" {status} {size} "-" "{agent}"\n'


def random_log(seed):
    rng = random.Random(seed)
    below = lambda n: int(rng.random() * n)
    lines = []
    for c in range(40):
        client = ["192.0.2.%d" % c, "host-%d.example" % c, "2001:db8::%x" % c][below(3)]
        t = 946684800 + below(3000000000)
        for _ in range(1 + below(60)):
            path = ["/", "/a", "/a/b", "/B", "/a?x", "/z?y=/a?", "/~u", "/0"][below(8)]
            lines.append(entry(client, t, path, [200, 204, 399, 400, 401, 503, 304][below(7)], ["-", "0", str(below(5000000000))][below(3)], "A b [c]"))
            t += [0, 1, 60, 1799, 1800, 1801, 1802, 86400, below(4000)][below(9)]
        if below(3) == 0:
            lines.append(["\n", "junk\n", entry(client, t).replace("+0000", "-0000"), entry(client, t).replace('"\n', '" \n'), " " + entry(client, t),
                          entry(client, t, "relative"), entry(client, t, status="20"), entry(client, t, size="1k"), entry(client, t, agent='say "hi"')][below(9)])
    for i in range(len(lines) - 1, 0, -1):
        j = below(i + 1)
        lines[i], lines[j] = lines[j], lines[i]
    return "".join(lines)


T = 1700000000
ENDS = [seconds("28", "Feb", y, 23, 59, 50) for y in (2023, 2024, 2000, 2100 - 4)] + [seconds("31", "Dec", 2024, 23, 59, 50), seconds("30", "Apr", 2025, 23, 59, 50)]
GOOD = entry("good", T)
# Parts of one log, each about clients of its own.
PARTS = {
    "random": random_log(11),
    "gaps": entry("g", T) + entry("g", T + 1800) + entry("g", T + 3601) + entry("h", T + 1801) + entry("h", T),
    "order": entry("o", T + 4000, "/late") + entry("o", T + 1000, "/mid") + entry("o", T, "/first") + entry("o", T + 2500, "/mid"),
    "calendar": "".join(entry("c", t) + entry("c", t + 20) + entry("c", t + 86400) for t in ENDS),
    "top path": "".join(entry("t", T + i, p) for i, p in enumerate(["/b?1", "/a/", "/B", "/a", "/b", "/a/", "/B?x", "/a", "/~", "/Z", "/Z"])),
    "same start": "".join(entry(c, T) for c in ["b", "B", "198.51.100.2", "198.51.100.10", "a-b", "a.b", "ab", "2001:db8:1::1", "_"]),
    "numbers": "".join(entry(c, T + i) for i, c in enumerate(["10", "10.0", "1e1", "010", "+10", "10", "1e1"])),
    "sums": "".join(entry("s", T + i, size=str(999999999999 + i)) for i in range(1000)) + entry("u", T, size="2147483648") + entry("v", T, size="-"),
    "statuses": "".join(entry("st", T, status=s) for s in (200, 399, 400, 404, 500, 999, "099")),
    "malformed": "z last?\n\n" + GOOD + GOOD.replace(" - - ", " - ") + "%s %d \\n \\t\n" + GOOD.replace("HTTP", "http") + "   \n" + GOOD[:-2] + "\n" + GOOD
                 + GOOD.rstrip("\n") + " \n" + GOOD.replace(" 200 ", " 2000 ") + GOOD.replace("Nov", "nov") + "a first?\n" + GOOD.replace("[", "") + GOOD.replace(" 10 ", "  10 "),
}


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


class Given(unittest.TestCase):
    def test_access_log_is_unchanged(self):
        self.assertEqual(digest("/app/access.log"), LOG_SHA)

    def test_sessions_tsv(self):
        self.assertEqual(digest("/app/sessions.tsv"), REPORT_SHA)

    def test_rejects_log(self):
        self.assertEqual(digest("/app/rejects.log"), REJECTS_SHA)


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """The tools that the script may use, and no others."""
        cls.tools = tempfile.mkdtemp(prefix="tools-", dir="/tmp")
        cls.addClassCleanup(shutil.rmtree, cls.tools, ignore_errors=True)
        cls.addClassCleanup(setattr, guard, "ENV", guard.ENV)
        os.chmod(cls.tools, 0o755)
        for name in COREUTILS:
            path = shutil.which(name, path="/usr/bin:/bin:/usr/local/bin")
            if path:
                os.symlink(path, os.path.join(cls.tools, name))

    def setUp(self):
        self.assertTrue(os.path.isfile(SCRIPT), "there is no " + SCRIPT)
        self.dir = guard.folder(self)
        self.tmp = guard.folder(self)
        guard.ENV = {"PATH": self.tools, "HOME": "/tmp", "LC_ALL": "C.UTF-8", "TMPDIR": self.tmp}

    def put(self, name, text):
        path = os.path.join(self.dir, name)
        with open(path, "w", newline="") as file:
            file.write(text)
        guard.give(path)
        return path

    def get(self, name):
        with open(os.path.join(self.dir, name), newline="") as file:
            return file.read()

    def call(self, *arguments):
        status, out, err = guard.run(["sh", SCRIPT, *arguments], self.dir)
        return status, err.decode(errors="replace")

    def made(self, text, log="in.log", report="report.tsv", rejects="rejects.log"):
        """The report and the rejects of a log, which stays as it is; nothing else is left behind."""
        self.put(log, text)
        status, err = self.call(log, report, rejects)
        self.assertEqual(status, 0, err)
        self.same(self.get(log), text, "log")
        self.assertEqual(os.listdir(self.tmp), [])
        return self.get(report), self.get(rejects)

    def check(self, text, **names):
        report, rejects = self.made(text, **names)
        want_report, want_rejects = reference(text)
        self.same(report, want_report, "report")
        self.same(rejects, want_rejects, "rejects")

    def same(self, got, want, what):
        if got != want:
            pairs = itertools.zip_longest(got.split("\n"), want.split("\n"))
            line, (have, need) = next((n, pair) for n, pair in enumerate(pairs, 1) if pair[0] != pair[1])
            self.fail(f"{what}, line {line}: got {have!r}, expected {need!r}")


class Ends(Case):
    def test_only_good_lines_and_only_bad_lines_and_none(self):
        self.check(entry("a", 1700000000))
        self.check("bad\n")
        self.check("")

    def test_odd_file_names_and_existing_outputs(self):
        text = entry("a", 1700000000) + "bad\n" + entry("b", 1700000000)
        self.put("out put=2", "old\n" * 5000)
        self.put("re ject's*=3", "old\n" * 5000)
        self.check(text, log="my log=1.txt", report="out put=2", rejects="re ject's*=3")
        self.check(text, log="x=y", report="r=s", rejects="t=u")
        self.put("in.log", text)
        there = os.path.join(self.dir, "abs $HOME `x`")
        status, err = self.call(os.path.join(self.dir, "in.log"), there, there + ".bad")
        self.assertEqual((status, self.get(there), self.get(there + ".bad")), (0, *reference(text)), err)

    def test_unreadable_log_is_status_1_and_touches_nothing(self):
        os.mkdir(os.path.join(self.dir, "folder"))
        self.put("kept", "kept\n")
        for log in ("missing.log", "folder"):
            status, _ = self.call(log, "kept", "new")
            self.assertEqual(status, 1)
            self.assertEqual(self.get("kept"), "kept\n")
            self.assertFalse(os.path.exists(os.path.join(self.dir, "new")))

    def test_wrong_number_of_arguments_is_status_2(self):
        self.put("in.log", entry("a", 1700000000))
        for arguments in ([], ["in.log"], ["in.log", "r"], ["in.log", "r", "j", "k"]):
            self.assertEqual(self.call(*arguments)[0], 2, arguments)


class Sessions(Case):
    """The parts of a log that is read once."""

    was_read = False
    report = rejects = None

    def setUp(self):
        super().setUp()
        if not self.was_read:
            Sessions.was_read = True
            Sessions.report, Sessions.rejects = self.made("".join(PARTS.values()))
            self.assertEqual(sorted(os.listdir(self.dir)), ["in.log", "rejects.log", "report.tsv"])
        self.assertIsNotNone(self.report, "no report was made, see the first of these tests")

    def part(self, name):
        """The lines about the clients of a part."""
        want = reference(PARTS[name])[0]
        clients = {line.split("\t")[0] for line in want.splitlines()}
        self.same("".join(line + "\n" for line in self.report.splitlines() if line.split("\t")[0] in clients), want, name)

    def test_all_parts_together(self):
        self.same(self.report, reference("".join(PARTS.values()))[0], "report")

    def test_malformed_lines_keep_order_and_content(self):
        self.same(self.rejects, reference("".join(PARTS.values()))[1], "rejects")

    def test_random_requests(self):
        self.part("random")

    def test_gap_of_1800_seconds_and_one_more(self):
        self.part("gaps")

    def test_lines_out_of_order(self):
        self.part("order")

    def test_session_across_leap_day_month_and_year_ends(self):
        self.part("calendar")

    def test_ties_for_the_top_path_go_by_byte_order(self):
        self.part("top path")

    def test_same_start_is_ordered_by_client_bytes(self):
        self.part("same start")

    def test_clients_that_look_like_numbers_are_text(self):
        self.part("numbers")

    def test_large_sums_of_bytes(self):
        self.part("sums")

    def test_status_of_400_and_above_counts(self):
        self.part("statuses")

    def test_malformed_lines_count_for_nothing(self):
        self.part("malformed")


if __name__ == "__main__":
    unittest.main()
