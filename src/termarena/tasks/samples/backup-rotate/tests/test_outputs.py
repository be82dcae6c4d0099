import datetime
import fcntl
import os
import random
import re
import select
import signal
import subprocess
import unittest

import guard

SCRIPT = "/app/rotate.sh"
NAME = re.compile(r"([^.].*)_(20\d\d-\d\d-\d\d)(\.tar\.gz|\.sql\.gz)", re.S)
DAY = datetime.timedelta(1)


def backup(name):
    match = NAME.fullmatch(name)
    if not match:
        return None
    try:
        return match[1], match[3], datetime.date.fromisoformat(match[2])
    except ValueError:
        return None


def reference(names, today, days=7, weeks=4, months=6):
    """{name: reasons} for the backups among names."""
    today = datetime.date.fromisoformat(today)
    monday = lambda d: d - d.weekday() * DAY
    month = lambda d: d.year * 12 + d.month
    series = {}
    for name in names:
        parts = backup(name)
        if parts and parts[2] <= today:
            series.setdefault(parts[:2], []).append((parts[2], name))
    verdicts = {}
    for files in series.values():
        dates = [d for d, _ in files]
        for date, name in files:
            reasons = []
            if (today - date).days < days:
                reasons.append("daily")
            if (monday(today) - monday(date)).days // 7 < weeks and date == max(d for d in dates if monday(d) == monday(date)):
                reasons.append("weekly")
            if month(today) - month(date) < months and date == min(d for d in dates if month(d) == month(date)):
                reasons.append("monthly")
            if date == max(dates):
                reasons.append("latest")
            verdicts[name] = reasons
    return verdicts


def listing(verdicts):
    lines = []
    for name in sorted(verdicts, key=os.fsencode):
        lines.append(f"keep\t{','.join(verdicts[name])}\t{name}\n" if verdicts[name] else f"delete\t-\t{name}\n")
    return "".join(lines)


def dated(series, suffix, first, count, step=1):
    first = datetime.date.fromisoformat(first)
    return [f"{series}_{first + i * step * DAY}{suffix}" for i in range(count)]


def what_stays():
    """The names in /app/backups after the run that was asked for."""
    names = [n for args in (("db", ".sql.gz", "2023-11-20", 112, 1), ("db", ".tar.gz", "2023-06-04", 22, 13), ("home of anna", ".tar.gz", "2023-07-01", 52, 5),
                            ("-web", ".tar.gz", "2022-12-25", 21, 3), ("old_2019-12-31", ".sql.gz", "2023-12-18", 14, 2)) for n in dated(*args)]
    verdicts = reference(names, "2024-03-10", 10, 5, 8)
    kept = [n for n in names if verdicts.get(n, ["later"])]
    kept += ["db_2024-02-30.sql.gz", "db_2024-02-27.sql", "db-2024-02-27.sql.gz", "_2024-02-27.sql.gz", ".db_2024-02-27.sql.gz", "README",
             "dir_2023-01-01.tar.gz", "link_2023-01-01.tar.gz"]
    return sorted(kept)


def setUpModule():
    if not os.path.isfile(SCRIPT):
        raise AssertionError(f"no script {SCRIPT}")
    if sorted(os.listdir("/app/backups")) != what_stays():
        raise AssertionError("/app/backups is not thinned out as asked: the rest is not looked at")


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = guard.folder(self)

    def fill(self, names, where=None):
        """Makes the files, with file times that say the opposite of the names."""
        where = where or self.dir
        for i, name in enumerate(sorted(names, reverse=True)):
            path = os.path.join(where, name)
            with open(path, "w") as file:
                file.write(name)
            os.utime(path, (1500000000 + i * 86400,) * 2)
            guard.give(path)

    def call(self, *arguments, cwd=None):
        status, out, err = guard.run(["sh", SCRIPT, *arguments], cwd or self.dir, timeout=20)
        return status, out.decode(errors="surrogateescape"), err.decode(errors="replace")

    def check(self, names, today, *, others=(), dry=False, **policy):
        self.fill([*names, *others])
        options = [x for key, value in policy.items() for x in (f"-{key[0]}", str(value))]
        if dry:
            options.append("-n")
        before = set(os.listdir(self.dir))
        status, out, err = self.call("-t", today, *options, self.dir)
        verdicts = reference(names, today, **{key: int(value) for key, value in policy.items()})
        self.assertEqual(status, 0, err)
        got, want = out.splitlines(), listing(verdicts).splitlines()
        wrong = [pair for pair in zip(got, want) if pair[0] != pair[1]]
        self.assertFalse(wrong, f"first wrong line: {wrong[:1]}")
        self.assertEqual(out, listing(verdicts))
        gone = set() if dry else {name for name, reasons in verdicts.items() if not reasons}
        self.assertEqual(set(os.listdir(self.dir)), before - gone)


class Policy(Case):
    def test_daily_window_only(self):
        self.check(dated("a", ".tar.gz", "2024-02-20", 20), "2024-03-05", days=5, weeks=0, months=0)

    def test_weekly_keeps_the_newest_of_monday_to_sunday(self):
        self.check(dated("a", ".tar.gz", "2024-12-01", 60), "2025-01-20", dry=True, days=0, weeks=6, months=0)

    def test_weekly_with_today_on_sunday_and_on_monday(self):
        for today in ("2023-01-01", "2023-01-02"):
            self.check(dated("a", ".tar.gz", "2022-11-20", 60), today, dry=True, days=0, weeks=3, months=0)

    def test_monthly_keeps_the_oldest_across_the_year_end(self):
        self.check(dated("a", ".sql.gz", "2023-09-03", 50, 5), "2024-02-29", dry=True, days=0, weeks=0, months=5)

    def test_all_zero_keeps_the_latest(self):
        self.check(dated("a", ".tar.gz", "2019-01-05", 9) + dated("b", ".tar.gz", "2024-01-05", 3), "2024-02-29", days=0, weeks=0, months=0)

    def test_defaults(self):
        self.check(dated("a", ".tar.gz", "2023-02-01", 262), "2023-10-20", dry=True)

    def test_backups_after_today_count_for_nothing(self):
        self.check(dated("a", ".tar.gz", "2024-02-20", 30) + dated("late", ".tar.gz", "2024-03-06", 3), "2024-03-05", days=2, weeks=3, months=2)

    def test_series_differ_by_suffix(self):
        self.check(dated("a", ".tar.gz", "2024-01-01", 9) + dated("a", ".sql.gz", "2023-12-25", 9), "2024-01-20", days=2, weeks=2, months=1)

    def test_numbers_with_leading_zeros_are_decimal(self):
        self.check(dated("a", ".tar.gz", "2023-01-01", 300, 3), "2025-06-20", dry=True, days="010", weeks="09", months="08")

    def test_days_and_months_08_and_09_in_dates(self):
        self.check(dated("a", ".tar.gz", "2024-07-28", 60), "2024-09-09", dry=True, days=3, weeks=3, months=3)

    def test_large_numbers_keep_all(self):
        self.check(dated("a", ".tar.gz", "2000-01-01", 30, 300), "2024-09-09", days=9999, weeks=9999, months=9999)

    def test_random_folders(self):
        rng = random.Random(77)
        below = lambda n: int(rng.random() * n)
        for dry in (True, True, False):
            with self.subTest(dry=dry):
                self.dir = guard.folder(self)
                today = datetime.date(2004 + below(90), 1 + below(12), 1 + below(28))
                names = set()
                for series in ("db", "db_x", "web 1", "x"):
                    for _ in range(25):
                        names.add(f"{series}_{today - (below(400) - 20) * DAY}{['.tar.gz', '.sql.gz'][below(2)]}")
                self.check(sorted(names), str(today), dry=dry, days=below(20), weeks=below(10), months=below(10))

    def test_today_defaults_to_the_current_utc_date(self):
        while True:
            now = datetime.datetime.now(datetime.timezone.utc).date()
            names = [f"a_{now + i * DAY}.tar.gz" for i in (-3, -2, -1, 0, 1)]
            self.fill(names)
            _, out, _ = self.call("-n", "-d", "2", "-w", "0", "-m", "0", self.dir)
            if now == datetime.datetime.now(datetime.timezone.utc).date():
                break
        self.assertEqual(out, listing(reference(names, str(now), 2, 0, 0)))


class Names(Case):
    def test_odd_series_names(self):
        odd = ["-rf", "--", "-n", "two  spaces ", " lead", "tab\there", "star*", "q?", "[ab]", "it's", 'say "x"', "back\\slash\\n", "$HOME", "`id`", "a;b", "%s%d",
               "x_2024-01-01", "_", "a&b", "~", "#c", "end", "0", "a.b", "a=b", "!", "\\"]
        names = [n for series in odd for n in dated(series, ".tar.gz", "2024-02-25", 6, 2)]
        self.check(names, "2024-03-10", days=5, weeks=2, months=1)

    def test_what_is_no_backup_is_left_alone(self):
        others = ["a_2024-02-30.tar.gz", "a_2023-02-29.tar.gz", "a_2024-13-01.tar.gz", "a_2024-00-10.tar.gz", "a_2024-01-00.tar.gz", "a_2024-04-31.sql.gz",
                  "a_1999-12-31.tar.gz", "a_2100-01-01.tar.gz", "a_2024-1-01.tar.gz", "a_20240101.tar.gz", "_2024-01-01.tar.gz", ".a_2024-01-01.tar.gz",
                  "a_2024-01-01.tar.gz.part", "a_2024-01-01.tar", "a_2024-01-01.TAR.GZ", "a2024-01-01.tar.gz", "a_2024-01-01xtar.gz", "a_2O24-01-01.tar.gz",
                  "a_2024-01-01.zip.gz", "notes"]
        os.mkdir(os.path.join(self.dir, "sub_2020-01-01.tar.gz"))
        os.symlink("notes", os.path.join(self.dir, "link_2020-01-01.tar.gz"))
        os.symlink("nowhere", os.path.join(self.dir, "gone_2020-01-01.tar.gz"))
        self.check(dated("a", ".tar.gz", "2024-01-02", 20), "2024-03-10", others=others, days=1, weeks=1, months=1)

    def test_backups_in_subfolders_are_left_alone(self):
        sub = os.path.join(self.dir, "sub")
        os.mkdir(sub)
        guard.give(sub)
        self.fill(dated("a", ".tar.gz", "2020-01-01", 5), sub)
        self.check(dated("a", ".tar.gz", "2020-01-01", 5), "2024-03-10", days=0, weeks=0, months=0)
        self.assertEqual(len(os.listdir(sub)), 5)

    def test_an_empty_folder(self):
        self.check([], "2024-03-10")

    def test_order_of_output_is_bytewise(self):
        names = [f"{s}_2024-03-01{x}" for s in ("b", "B", "a-b", "a_b", "ab", "a b", "Z", "10", "9", "a") for x in (".tar.gz", ".sql.gz")]
        self.check(names + dated("a", ".tar.gz", "2024-02-01", 8), "2024-03-10", days=3)

    def test_odd_folders(self):
        names = dated("a", ".tar.gz", "2024-02-25", 6)
        want = listing(reference(names, "2024-03-10", 1, 1, 1))
        for name in ("with space", "-dash", "-", "st*r", "..."):
            path = os.path.join(self.dir, name)
            os.mkdir(path)
            guard.give(path)
            self.fill(names, path)
            status, out, err = self.call("-t", "2024-03-10", "-d", "1", "-w", "1", "-m", "1", "--", name)
            self.assertEqual((status, out), (0, want), (name, err))
            self.assertEqual(os.listdir(path), names[-1:])
            status, out, _ = self.call("-n", "-t", "2024-03-10", "-d", "1", "-w", "1", "-m", "1", path + "/")
            self.assertEqual(status, 0)
            self.assertNotIn("delete", out)


class Dry(Case):
    def test_dry_run_lists_and_deletes_nothing(self):
        self.check(dated("a", ".tar.gz", "2024-01-02", 40), "2024-03-10", dry=True, days=3, weeks=1, months=1)

    def test_options_in_any_order(self):
        names = dated("a", ".tar.gz", "2024-01-02", 60)
        self.fill(names)
        status, out, err = self.call("-m", "2", "-n", "-t", "2024-03-01", "-w", "0", "-d", "4", "--", self.dir)
        self.assertEqual((status, out), (0, listing(reference(names, "2024-03-01", 4, 0, 2))), err)
        self.assertEqual(len(os.listdir(self.dir)), 60)


class Lock(Case):
    def setUp(self):
        super().setUp()
        self.lock = os.path.join(self.dir, ".rotate.lock")
        self.names = dated("a", ".tar.gz", "2024-01-02", 12)
        self.fill(self.names)
        self.policy = ["-t", "2024-03-10", "-d", "0", "-w", "0", "-m", "0"]

    def hold(self, pid):
        os.mkdir(self.lock)
        guard.give(self.lock)
        if pid is not None:
            path = os.path.join(self.lock, "pid")
            with open(path, "w") as file:
                file.write(pid)
            guard.give(path)

    def refused(self, *more):
        before = sorted(os.listdir(self.dir))
        status, out, _ = self.call(*self.policy, *more, self.dir)
        self.assertEqual((status, out), (75, ""))
        self.assertEqual(sorted(os.listdir(self.dir)), before)

    def test_lock_of_a_living_process_holds(self):
        sleeper = guard.start(["sleep", "60"], self.dir)
        try:
            self.hold(f"{sleeper.pid}\n")
            self.refused()
            self.refused("-n")
            with open(os.path.join(self.lock, "pid")) as file:
                self.assertEqual(file.read(), f"{sleeper.pid}\n")
        finally:
            sleeper.kill()
            sleeper.communicate()

    def test_lock_without_pid_holds(self):
        self.hold(None)
        self.refused()
        self.assertEqual(os.listdir(self.lock), [])

    def test_stale_lock_is_replaced(self):
        ended = subprocess.Popen(["true"])
        ended.wait()
        self.hold(f"{ended.pid}\n")
        status, out, err = self.call(*self.policy, self.dir)
        self.assertEqual((status, out.count("delete")), (0, 11), err)
        self.assertEqual(os.listdir(self.dir), ["a_2024-01-13.tar.gz"])

    def test_lock_is_gone_after_usage_and_normal_exits(self):
        for arguments in ([*self.policy, "-n", self.dir], [*self.policy, self.dir], ["-q", self.dir]):
            self.call(*arguments)
            self.assertFalse(os.path.lexists(self.lock))

    def blocked(self):
        """A dry run that hangs in the middle, as nobody reads its output, which is more than its small pipe holds."""
        self.names += [n for i in range(6) for n in dated(f"{'long' * 50}{i}", ".tar.gz", "2024-02-01", 10)]
        self.fill(self.names)
        ours, its = os.pipe()
        fcntl.fcntl(its, fcntl.F_SETPIPE_SZ, 4096)
        process = subprocess.Popen(["sh", SCRIPT, *self.policy, "-n", self.dir], cwd=self.dir, env=guard.ENV, start_new_session=True, stdin=subprocess.DEVNULL,
                                   stdout=its, stderr=subprocess.PIPE, preexec_fn=guard._default_signals, **guard.WHO)
        os.close(its)
        process.stdout = open(ours, "rb", buffering=0)
        self.addCleanup(self.end, process)
        self.assertTrue(select.select([process.stdout], [], [], 15)[0], "no output")
        self.assertTrue(os.read(process.stdout.fileno(), 1), "no output")
        self.assertIsNone(process.poll())
        self.assertTrue(os.path.exists(os.path.join(self.lock, "pid")), "no lock while it works")
        return process

    @staticmethod
    def end(process):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except OSError:
            pass
        process.communicate()

    def test_second_run_is_refused_while_the_first_is_at_work(self):
        process = self.blocked()
        with open(os.path.join(self.lock, "pid")) as file:
            self.assertEqual(file.read().strip(), str(process.pid))
        self.refused()
        self.refused("-n")
        out, err = process.communicate(timeout=20)
        self.assertEqual(process.returncode, 0, err)
        self.assertEqual(out.count(b"\n"), len(self.names))
        self.assertFalse(os.path.lexists(self.lock))

    def test_lock_is_gone_after_signals(self):
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            with self.subTest(signal=number):
                process = self.blocked()
                os.kill(process.pid, number)
                process.communicate(timeout=20)
                self.assertIn(process.returncode, (128 + number, -number))
                self.assertFalse(os.path.lexists(self.lock))

    def test_many_runs_at_once(self):
        runs = [guard.start(["sh", SCRIPT, *self.policy, self.dir], self.dir) for _ in range(8)]
        for process in runs:
            process.communicate(timeout=20)
        codes = [process.returncode for process in runs]
        self.assertIn(0, codes)
        self.assertLessEqual(set(codes), {0, 75})
        self.assertEqual(os.listdir(self.dir), ["a_2024-01-13.tar.gz"])


class Status(Case):
    def test_wrong_usage_is_2(self):
        self.fill(dated("a", ".tar.gz", "2020-01-02", 3))
        d = self.dir
        for arguments in ([], [d, d], ["-x", d], ["-d"], ["-d", "", d], ["-d", "x", d], ["-d", "-1", d], ["-w", "1.5", d], ["-m", "12345", d], ["-d", "0x9", d],
                          ["-t", "2024-02-30", d], ["-t", "today", d], ["-t", "1999-12-31", d], ["-t", "2024-3-1", d], ["-t", "", d], ["-n"], ["-w", "+1", d]):
            status, out, _ = self.call(*arguments)
            self.assertEqual((status, out), (2, ""), arguments)
        self.assertEqual(len(os.listdir(d)), 3)

    def test_no_folder_is_3(self):
        self.fill(["file", "a_2020-01-01.tar.gz"])
        for arguments in (["missing"], ["file"], ["-n", "missing"], [os.path.join(self.dir, "a_2020-01-01.tar.gz")]):
            status, out, _ = self.call(*arguments)
            self.assertEqual((status, out), (3, ""), arguments)

    @unittest.skipUnless(guard.WHO, "needs a second user")
    def test_a_backup_that_cannot_be_deleted_is_1(self):
        names = dated("a", ".tar.gz", "2024-01-02", 6)
        self.fill(names)
        os.chown(self.dir, 0, 0)
        os.chmod(self.dir, 0o1777)
        for name in names[:2]:
            os.chown(os.path.join(self.dir, name), 0, 0)
        status, out, _ = self.call("-t", "2024-03-10", "-d", "0", "-w", "0", "-m", "0", self.dir)
        self.assertEqual(out, listing(reference(names, "2024-03-10", 0, 0, 0)))
        self.assertEqual(status, 1)
        self.assertEqual(sorted(os.listdir(self.dir)), [*names[:2], names[-1]])


if __name__ == "__main__":
    unittest.main()
