"""Grades /app/superv with configurations it has not seen."""
import os
import signal
import subprocess
import threading
import time
import unittest

import guard

PROGRAM = "/app/superv"
STARTED = time.monotonic()


def patience():
    """Seconds to wait for something that should happen soon; less when much time was spent on failures."""
    return 6 if time.monotonic() - STARTED < 30 else 0.3


def kill_with(setting):
    """Kills the processes that have this in their environment: what a broken superv left behind."""
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                with open("/proc/%s/environ" % name, "rb") as f:
                    if setting.encode() in f.read().split(b"\0"):
                        os.kill(int(name), signal.SIGKILL)
            except OSError:
                pass


def alive(pid):
    """Is there such a process, not counting zombies?"""
    try:
        with open("/proc/%d/stat" % pid) as f:
            return f.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return False


class Run:
    """A superv under test; its event lines arrive in the list events."""

    def __init__(self, case, config):
        self.case, self.dir = case, os.path.join(case.dir, "run")
        path = os.path.join(case.dir, "services.conf")
        with open(path, "w") as f:
            f.write(config.replace("@", case.dir))
        self.stderr = open(os.path.join(case.dir, "stderr"), "w+b")
        self.process = subprocess.Popen([PROGRAM, path, self.dir], cwd=case.dir, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=self.stderr, env=dict(os.environ, T=case.dir, FROM_OUTSIDE="yes"), **guard.WHO)
        self.events, self.news, self.closed = [], threading.Condition(), False
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        case.addCleanup(self.finish)

    def read(self):
        for line in self.process.stdout:
            with self.news:
                self.events.append(line.decode("utf-8", "replace").rstrip("\n"))
                self.news.notify_all()
        with self.news:
            self.closed = True
            self.news.notify_all()

    def finish(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        kill_with("T=" + self.case.dir)
        self.reader.join(patience())
        self.process.stdout.close()
        self.stderr.close()

    def wait_for(self, event, count=1):
        """Waits until a line has come that many times."""
        with self.news:
            if not self.news.wait_for(lambda: self.events.count(event) >= count or self.closed, patience()) or self.events.count(event) < count:
                self.stderr.seek(0)
                self.case.fail("no %r in %r; standard error: %r" % (event, self.events, self.stderr.read()[-500:]))

    def wait_until(self, condition, what):
        deadline = time.monotonic() + patience()
        while not condition():
            if time.monotonic() > deadline:
                self.case.fail("still not: %s; events %r" % (what, self.events))
            time.sleep(0.02)

    def state(self):
        with open(os.path.join(self.dir, "state")) as f:
            return [line.split(" ") for line in f.read().splitlines()]

    def states(self):
        return {line[0]: line[1] for line in self.state()}

    def pid(self, name):
        return int(next(line for line in self.state() if line[0] == name)[2])

    def term(self, which=signal.SIGTERM):
        self.process.send_signal(which)

    def ends(self, status):
        try:
            got = self.process.wait(patience())
        except subprocess.TimeoutExpired:
            self.case.fail("superv still runs; events %r" % self.events)
        self.reader.join(patience())
        self.case.assertEqual(got, status, "exit status; events %r" % self.events)

    def of(self, *names):
        """The events of some services."""
        return [e for e in self.events if e.split()[1] in names]


class Case(unittest.TestCase):
    def setUp(self):
        os.umask(0o022)
        self.dir = guard.folder(self)

    def path(self, name):
        return os.path.join(self.dir, name)

    def text(self, name):
        with open(self.path(name)) as f:
            return f.read()

    def touch(self, name):
        open(self.path(name), "w").close()
        guard.give(self.path(name))

    def prepare(self, name, text):
        """A file in the directory of superv that is there before."""
        os.makedirs(self.path("run"), exist_ok=True)
        with open(self.path("run/" + name), "w") as f:
            f.write(text)
        guard.give(guard.give(self.path("run")) + "/" + name)


class StartOrder(Case):
    def test_required_services_come_first(self):
        r = Run(self, "[c]\ntype=oneshot\ncommand=echo c >>$T/trace\nrequires=b\n[b]\ntype=oneshot\ncommand=echo b >>$T/trace\nrequires=a\n"
                      "[a]\ntype=oneshot\ncommand=sleep 0.2; echo a >>$T/trace\n")
        r.ends(0)
        self.assertEqual(r.events, ["start a 1", "end a 0", "done a", "start b 1", "end b 0", "done b", "start c 1", "end c 0", "done c"])
        self.assertEqual(self.text("trace"), "a\nb\nc\n")
        self.assertEqual(r.state(), [["c", "done", "-", "1", "0"], ["b", "done", "-", "1", "0"], ["a", "done", "-", "1", "0"]])

    def test_order_of_the_file_decides_ties(self):
        config = "".join("[%s]\ntype = oneshot\ncommand = true\nrequires = %s\n" % pair for pair in (
            ("z", ""), ("late", "y m"), ("m", "z"), ("y", ""), ("b", "late"), ("a", "z\ty"), ("k", "")))
        r = Run(self, config)
        r.ends(0)
        self.assertEqual([e.split()[1] for e in r.events if e.startswith("start")], ["z", "m", "y", "late", "b", "a", "k"])

    def test_one_after_the_other(self):
        r = Run(self, "[first]\ntype=oneshot\ncommand=while [ ! -e $T/go ]; do sleep 0.05; done\n[second]\ncommand=exec sleep 1000\n")
        r.wait_for("start first 1")
        self.assertEqual(r.states(), {"first": "starting", "second": "waiting"})
        self.touch("go")
        r.wait_for("up second")
        self.assertEqual(r.events, ["start first 1", "end first 0", "done first", "start second 1", "up second"])
        r.term()
        r.ends(0)

    def test_ready_file(self):
        self.touch("ready")
        r = Run(self, "[web]\ncommand=exec sleep 1000\nrequires=db\n"
                      "[db]\ncommand=[ -e @/ready ] && echo stale; while [ ! -e @/go ]; do sleep 0.05; done; : >@/ready; exec sleep 1000\nready=@/ready\n")
        r.wait_for("start db 1")
        self.assertEqual(r.states(), {"web": "waiting", "db": "starting"})
        self.assertTrue(alive(r.pid("db")))
        self.assertEqual(r.events, ["start db 1"])
        self.touch("go")
        r.wait_for("up web")
        self.assertEqual(r.events, ["start db 1", "up db", "start web 1", "up web"])
        self.assertEqual(r.states(), {"web": "up", "db": "up"})
        self.assertEqual(self.text("run/db.log"), "")
        r.term()
        r.ends(0)

    def test_ready_seen_when_the_process_has_ended(self):
        r = Run(self, "[quick]\ncommand=: >@/ready\nready=@/ready\n")
        r.ends(0)
        self.assertEqual(r.events, ["start quick 1", "up quick", "end quick 0", "exited quick"])


class Surroundings(Case):
    def test_environment_log_and_input(self):
        r = Run(self, "[env]\ntype=oneshot\nrestart=on-failure\nbackoff_ms=0\n"
                      "command=echo $SUPERV_NAME $SUPERV_START $FROM_OUTSIDE; echo err >&2; wc -c; pwd; [ $SUPERV_START = 2 ]\n")
        r.ends(0)
        self.assertEqual(self.text("run/env.log").split(), ["env", "1", "yes", "err", "0", self.dir, "env", "2", "yes", "err", "0", self.dir])

    def test_log_is_appended_to(self):
        self.prepare("a.log", "before\n")
        Run(self, "[a]\ntype=oneshot\ncommand=echo after\n").ends(0)
        self.assertEqual(self.text("run/a.log"), "before\nafter\n")

    def test_own_process_group_and_signals(self):
        r = Run(self, "[a]\ntype=oneshot\ncommand=echo $$; cat /proc/$$/stat; cat /proc/self/status; true\n")
        r.ends(0)
        lines = self.text("run/a.log").splitlines()
        group = int(lines[1].rpartition(")")[2].split()[2])
        self.assertEqual(group, int(lines[0]))
        masks = [line for line in lines if line.startswith(("SigIgn:", "SigBlk:"))]
        self.assertEqual(len(masks), 2)
        for line in masks:
            mask = int(line.split()[1], 16)
            for which in ("TERM", "INT", "HUP", "QUIT", "USR1", "USR2", "PIPE"):
                self.assertFalse(mask >> getattr(signal, "SIG" + which) - 1 & 1, "%s: %s" % (which, line))

    def test_pid_is_that_of_the_shell(self):
        r = Run(self, "[a]\ncommand=echo $$ >@/pid.new; mv @/pid.new @/pid; while :; do sleep 1; done\nready=@/pid\n")
        r.wait_for("up a")
        self.assertEqual(r.pid("a"), int(self.text("pid")))
        r.term()
        r.ends(0)

    def test_values_are_taken_as_they_are(self):
        r = Run(self, "\t # comment\n ; comment\n\n  [ok_1-A]  \n\tcommand\t =  echo 'a=b' # c ; d  \n type=oneshot\n requires =\n")
        r.ends(0)
        self.assertEqual(self.text("run/ok_1-A.log"), "a=b\n")


class Restarts(Case):
    def test_restart_after_failures_with_growing_delay(self):
        r = Run(self, "[a]\ncommand=date +%s%N >>$T/times; [ $SUPERV_START -ge 5 ] && exec sleep 1000; exit 7\n"
                      "restart=on-failure\nmax_failures=4\nbackoff_ms=60\nbackoff_max_ms=150\n")
        r.wait_for("up a", 5)
        self.assertEqual(r.events, ["start a 1", "up a", "end a 7", "backoff a 60", "start a 2", "up a", "end a 7", "backoff a 120",
                                    "start a 3", "up a", "end a 7", "backoff a 150", "start a 4", "up a", "end a 7", "backoff a 150", "start a 5", "up a"])
        self.assertEqual([line[:2] + line[3:] for line in r.state()], [["a", "up", "5", "4"]])
        r.wait_until(lambda: len(self.text("times").split()) == 5, "five times")
        times = [int(t) for t in self.text("times").split()]
        for (a, b), least in zip(zip(times, times[1:]), (60, 120, 150, 150)):
            self.assertGreaterEqual((b - a) / 1e6, least - 1)
        r.term()
        r.ends(0)

    def test_giving_up(self):
        r = Run(self, "[a]\ntype=oneshot\ncommand=exit $SUPERV_START\nrestart=on-failure\nmax_failures=2\nbackoff_ms=1\n")
        r.ends(1)
        self.assertEqual(r.events, ["start a 1", "end a 1", "backoff a 1", "start a 2", "end a 2", "backoff a 2", "start a 3", "end a 3", "failed a"])
        self.assertEqual(r.state(), [["a", "failed", "-", "3", "3"]])

    def test_no_failure_allowed(self):
        r = Run(self, "[a]\ncommand=exit 1\nrestart=always\nmax_failures=0\n")
        r.ends(1)
        self.assertEqual(r.events, ["start a 1", "up a", "end a 1", "failed a"])

    def test_no_restart_by_default(self):
        r = Run(self, "[a]\ncommand=exit 3\n[b]\ncommand=exit 0\n")
        r.ends(1)
        self.assertEqual(r.of("a"), ["start a 1", "up a", "end a 3", "failed a"])
        self.assertEqual(r.of("b"), ["start b 1", "up b", "end b 0", "exited b"])

    def test_on_failure_does_not_restart_after_success(self):
        r = Run(self, "[a]\ncommand=exit 0\nrestart=on-failure\n")
        r.ends(0)
        self.assertEqual(r.events, ["start a 1", "up a", "end a 0", "exited a"])
        self.assertEqual(r.state(), [["a", "exited", "-", "1", "0"]])

    def test_a_good_end_sets_the_count_back(self):
        r = Run(self, "[a]\ncommand=case $SUPERV_START in 3|4) exit 0;; 7) exec sleep 1000;; *) exit 1;; esac\n"
                      "restart=always\nmax_failures=2\nbackoff_ms=3\n")
        r.wait_for("up a", 7)
        fail = lambda n, ms: ["start a %d" % n, "up a", "end a 1", "backoff a %d" % ms]
        good = lambda n: ["start a %d" % n, "up a", "end a 0"]
        self.assertEqual(r.events, fail(1, 3) + fail(2, 6) + good(3) + good(4) + fail(5, 3) + fail(6, 6) + ["start a 7", "up a"])
        r.term()
        r.ends(0)

    def test_ended_before_ready_is_a_failure(self):
        r = Run(self, "[a]\ncommand=[ $SUPERV_START = 2 ] && { : >@/ready; exec sleep 1000; }; exit 0\nready=@/ready\nrestart=on-failure\nbackoff_ms=5\n"
                      "[b]\ntype=oneshot\ncommand=true\n")
        r.wait_for("done b")
        self.assertEqual(r.events, ["start a 1", "end a 0", "backoff a 5", "start a 2", "up a", "start b 1", "end b 0", "done b"])
        r.term()
        r.ends(0)

    def test_ready_file_counts_anew_after_a_restart(self):
        r = Run(self, "[a]\ncommand=[ -e @/ready ] && echo stale; [ $SUPERV_START = 1 ] || while [ ! -e @/go ]; do sleep 0.05; done; : >@/ready;"
                      " [ $SUPERV_START = 1 ] && exit 5; exec sleep 1000\nready=@/ready\nrestart=on-failure\nbackoff_ms=5\n")
        r.wait_for("start a 2")
        self.assertEqual(r.states(), {"a": "starting"})
        self.touch("go")
        r.wait_for("up a", 2)
        self.assertEqual(r.events, ["start a 1", "up a", "end a 5", "backoff a 5", "start a 2", "up a"])
        self.assertEqual(self.text("run/a.log"), "")
        r.term()
        r.ends(0)

    def test_death_by_signal(self):
        r = Run(self, "[a]\ncommand=kill -KILL $$\n[b]\ntype=oneshot\ncommand=kill -USR1 $$\n")
        r.ends(1)
        self.assertIn("end a 137", r.events)
        self.assertIn("end b %d" % (128 + signal.SIGUSR1), r.events)

    def test_running_services_are_restarted_while_others_start(self):
        r = Run(self, "[a]\ncommand=while [ ! -e $T/die.$SUPERV_START ]; do sleep 0.05; done; exit 9\nrestart=on-failure\nbackoff_ms=1\n"
                      "[slow]\ntype=oneshot\ncommand=while [ ! -e $T/go ]; do sleep 0.05; done\n[last]\ntype=oneshot\ncommand=true\n")
        r.wait_for("start slow 1")
        self.touch("die.1")
        r.wait_for("start a 2")
        self.assertEqual(r.states()["last"], "waiting")
        self.touch("go")
        r.wait_for("done last")
        r.term()
        r.ends(0)

    def test_rest_of_the_group_is_killed(self):
        r = Run(self, "[a]\ncommand=sleep 1000 & echo $! >$T/child.$SUPERV_START; [ $SUPERV_START = 1 ] && exit 4; wait\nrestart=on-failure\nbackoff_ms=1\n")
        r.wait_for("start a 2")
        child = int(self.text("child.1"))
        r.wait_until(lambda: not alive(child), "the child of the first start is gone")
        r.term()
        r.ends(0)


class Stopping(Case):
    CHAIN = ("[c]\ncommand=trap 'echo c >>$T/trace; exit 3' TERM; : >@/c.up; while :; do sleep 0.05; done\nrequires=b\nready=@/c.up\n"
             "[a]\ncommand=trap 'echo a >>$T/trace; exit 0' INT; : >@/a.up; while :; do sleep 0.05; done\nready=@/a.up\nstop_signal=INT\n"
             "[b]\ncommand=trap 'sleep 0.3; echo b >>$T/trace; exit 0' USR1; : >@/b.up; while :; do sleep 0.05; done\nrequires=a\nready=@/b.up\n"
             "stop_signal=USR1\nrestart=always\n")
    CHAIN_STOPS = ["stop c", "end c 3", "stopped c", "stop b", "end b 0", "stopped b", "stop a", "end a 0", "stopped a"]

    def test_reverse_order_one_at_a_time(self):
        for which in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(which):
                r = Run(self, self.CHAIN)
                r.wait_for("up c")
                r.term(which)
                r.ends(0)
                self.assertEqual(r.events[6:], self.CHAIN_STOPS)
                self.assertEqual(self.text("trace"), "c\nb\na\n")
                self.assertEqual(r.state(), [["c", "stopped", "-", "1", "0"], ["a", "stopped", "-", "1", "0"], ["b", "stopped", "-", "1", "0"]])
                os.unlink(self.path("trace"))

    def test_more_signals_have_no_effect(self):
        r = Run(self, self.CHAIN)
        r.wait_for("up c")
        r.term()
        r.wait_for("stop b")
        r.term()
        r.term(signal.SIGINT)
        r.ends(0)
        self.assertEqual(r.events[6:], self.CHAIN_STOPS)

    def test_kill_after_the_timeout(self):
        r = Run(self, "[a]\ncommand=trap '' TERM; : >@/a.up; while :; do sleep 0.05; done\nready=@/a.up\nstop_timeout_ms=300\n"
                      "[b]\ncommand=trap 'sleep 0.1; exit 0' TERM; : >@/b.up; while :; do sleep 0.05; done\nready=@/b.up\n")
        r.wait_for("up b")
        started = time.monotonic()
        r.term()
        r.ends(0)
        self.assertGreaterEqual(time.monotonic() - started, 0.3)
        self.assertEqual(r.events[4:], ["stop b", "end b 0", "stopped b", "stop a", "kill a", "end a 137", "stopped a"])

    def test_the_whole_group_gets_the_signal(self):
        r = Run(self, "[a]\ncommand=sleep 1000 & echo $! >@/child.new; mv @/child.new @/child; wait\nready=@/child\n")
        r.wait_for("up a")
        child = int(self.text("child"))
        self.assertTrue(alive(child))
        r.term()
        r.ends(0)
        self.assertEqual(r.events[2:], ["stop a", "end a 143", "stopped a"])
        r.wait_until(lambda: not alive(child), "the child is gone")

    def test_stubborn_children_are_killed(self):
        r = Run(self, "[a]\ncommand=(trap '' TERM; : >@/child.up; exec sleep 1000) & echo $! >@/child; wait\nready=@/child.up\n")
        r.wait_for("up a")
        r.wait_until(lambda: os.path.exists(self.path("child")) and self.text("child"), "number of the child")
        child = int(self.text("child"))
        r.term()
        r.ends(0)
        r.wait_until(lambda: not alive(child), "the child is gone")

    def test_waiting_for_a_restart(self):
        r = Run(self, "[a]\ncommand=exit 1\nrestart=on-failure\nbackoff_ms=0000000050000\nbackoff_max_ms=050000\n")
        r.wait_for("backoff a 50000")
        self.assertEqual(r.state(), [["a", "backoff", "-", "1", "1"]])
        r.term()
        r.ends(0)
        self.assertEqual(r.events[4:], ["stopped a"])

    def test_waiting_no_longer_than_the_default(self):
        r = Run(self, "[a]\ncommand=exit 1\nrestart=on-failure\nbackoff_ms=60000\n")
        r.wait_for("backoff a 1000")
        r.term()
        r.ends(0)

    def test_while_services_are_being_started(self):
        r = Run(self, "[a]\ncommand=exec sleep 1000\n[b]\ntype=oneshot\ncommand=exec sleep 1000\n[c]\ncommand=exec sleep 1000\n[d]\ncommand=exec sleep 1000\n")
        r.wait_for("start b 1")
        r.term()
        r.ends(0)
        self.assertEqual(r.events, ["start a 1", "up a", "start b 1", "stopped d", "stopped c", "stop b", "end b 143", "stopped b",
                                    "stop a", "end a 143", "stopped a"])
        self.assertEqual(r.state()[2], ["c", "stopped", "-", "0", "0"])

    def test_final_states_are_left_alone(self):
        r = Run(self, "[one]\ntype=oneshot\ncommand=true\n[gone]\ncommand=: >@/g\nready=@/g\n[a]\ncommand=exec sleep 1000\n")
        r.wait_for("up a")
        r.wait_for("exited gone")
        r.term()
        r.ends(0)
        self.assertEqual(r.states(), {"one": "done", "gone": "exited", "a": "stopped"})

    def test_ends_by_itself_before_its_turn(self):
        r = Run(self, "[a]\ncommand=while [ ! -e $T/die ]; do sleep 0.05; done; exit 6\nrestart=always\nbackoff_ms=0\n"
                      "[b]\ncommand=trap ': >$T/die; while [ ! -e $T/go ]; do sleep 0.05; done; exit 0' TERM; : >@/b.up; while :; do sleep 0.05; done\nready=@/b.up\n")
        r.wait_for("up b")
        r.term()
        r.wait_for("stopped a")
        self.assertEqual(r.states(), {"a": "stopped", "b": "stopping"})
        self.assertTrue(alive(r.pid("b")))
        self.touch("go")
        r.ends(0)
        self.assertEqual(r.of("a"), ["start a 1", "up a", "end a 6", "stopped a"])


class Failures(Case):
    def test_dependents_are_blocked_or_stopped(self):
        r = Run(self, "[base]\ncommand=while [ ! -e $T/die ]; do sleep 0.05; done; exit 1\n"
                      "[mid]\ncommand=exec sleep 1000\nrequires=base\n"
                      "[other]\ncommand=exec sleep 1000\n"
                      "[top]\ncommand=exec sleep 1000\nrequires=mid\n"
                      "[ran]\ntype=oneshot\ncommand=true\nrequires=base\n"
                      "[gate]\ntype=oneshot\ncommand=while [ ! -e $T/go ]; do sleep 0.05; done\n"
                      "[late]\ncommand=exec sleep 1000\nrequires=top gate\n"
                      "[later]\ncommand=exec sleep 1000\nrequires=late\n"
                      "[free]\ncommand=exec sleep 1000\nrequires=other gate\n")
        r.wait_for("start gate 1")
        mark = len(r.events)
        self.touch("die")
        r.wait_for("stopped mid")
        self.assertEqual(r.events[mark:], ["end base 1", "failed base", "blocked late", "blocked later", "stop top", "end top 143", "stopped top",
                                           "stop mid", "end mid 143", "stopped mid"])
        self.assertEqual(r.states(), {"base": "failed", "mid": "stopped", "other": "up", "top": "stopped", "ran": "done", "gate": "starting",
                                      "late": "blocked", "later": "blocked", "free": "waiting"})
        self.touch("go")
        r.wait_for("up free")
        r.term()
        r.ends(1)
        self.assertEqual(r.events[-6:], ["stop free", "end free 143", "stopped free", "stop other", "end other 143", "stopped other"])

    def test_failure_at_the_start(self):
        r = Run(self, "[bad]\ntype=oneshot\ncommand=exit 1\n[child]\ntype=oneshot\ncommand=true\nrequires=bad\n[good]\ntype=oneshot\ncommand=true\n")
        r.ends(1)
        self.assertEqual(r.events, ["start bad 1", "end bad 1", "failed bad", "blocked child", "start good 1", "end good 0", "done good"])
        self.assertEqual(r.state()[1], ["child", "blocked", "-", "0", "0"])

    def test_dependents_stay_while_a_service_is_restarted(self):
        r = Run(self, "[base]\ncommand=while [ ! -e $T/die.$SUPERV_START ]; do sleep 0.05; done; exit 1\nrestart=on-failure\nbackoff_ms=1\n"
                      "[top]\ncommand=exec sleep 1000\nrequires=base\n")
        r.wait_for("up top")
        pid = r.pid("top")
        self.touch("die.1")
        r.wait_for("start base 2")
        self.assertEqual((r.states()["top"], r.pid("top")), ("up", pid))
        self.assertTrue(alive(pid))
        r.term()
        r.ends(0)

    def test_dependent_that_waits_for_a_restart_is_stopped(self):
        r = Run(self, "[base]\ncommand=while [ ! -e $T/die ]; do sleep 0.05; done; exit 1\n"
                      "[top]\ncommand=exit 2\nrestart=on-failure\nbackoff_ms=60000\nbackoff_max_ms=60000\nrequires=base\n")
        r.wait_for("backoff top 60000")
        self.touch("die")
        r.ends(1)
        self.assertEqual(r.events[-3:], ["end base 1", "failed base", "stopped top"])


class StateFile(Case):
    def test_is_replaced_not_rewritten(self):
        r = Run(self, "[a]\ncommand=while [ ! -e $T/die ]; do sleep 0.05; done; exit 1\n")
        r.wait_for("up a")
        with open(os.path.join(r.dir, "state")) as f:
            pid = r.pid("a")
            self.touch("die")
            r.ends(1)
            self.assertEqual(f.read(), "a up %d 1 0\n" % pid)
        self.assertEqual(self.text("run/state"), "a failed - 1 1\n")

    def test_directory_is_created_and_old_state_does_not_matter(self):
        self.prepare("state", "a failed - 9 9\nzzz done - 1 1\n")
        r = Run(self, "[a]\ntype=oneshot\ncommand=cat @/run/state\n")
        r.ends(0)
        self.assertRegex(self.text("run/a.log"), r"\Aa (waiting - 0 0|starting (\d+|-) 1 0)\n\Z")
        self.assertEqual(self.text("run/state"), "a done - 1 0\n")


class BadConfigurations(Case):
    CASES = {
        "empty": "", "only comments": "# nothing\n\n", "no command": "[a]\ntype=oneshot\n", "empty command": "[a]\ncommand=  \n",
        "key before a service": "command=true\n[a]\ncommand=true\n", "unknown key": "[a]\ncommand=true\ncolour=red\n",
        "key in capitals": "[a]\nCommand=true\n", "key twice": "[a]\ncommand=true\ncommand=false\n", "no equals sign": "[a]\ncommand=true\nrestart\n",
        "service twice": "[a]\ncommand=true\n[b]\ncommand=true\n[a]\ncommand=true\n", "bad name": "[a b]\ncommand=true\n",
        "empty name": "[]\ncommand=true\n", "unclosed name": "[a\ncommand=true\n", "text after a name": "[a] x\ncommand=true\n",
        "bad type": "[a]\ncommand=true\ntype=forking\n", "bad restart": "[a]\ncommand=true\nrestart=yes\n",
        "oneshot always": "[a]\ncommand=true\ntype=oneshot\nrestart=always\n", "oneshot with ready": "[a]\ncommand=true\ntype=oneshot\nready=/tmp/x\n",
        "unknown requirement": "[a]\ncommand=true\nrequires=b\n", "requires itself": "[a]\ncommand=true\nrequires=a\n",
        "circle": "[a]\ncommand=true\nrequires=c\n[b]\ncommand=true\nrequires=a\n[c]\ncommand=true\nrequires=b\n[d]\ncommand=true\n",
        "requirements with a comma": "[a]\ncommand=true\n[b]\ncommand=true\n[c]\ncommand=true\nrequires=a,b\n",
        "negative number": "[a]\ncommand=true\nmax_failures=-1\n", "number too large": "[a]\ncommand=true\nmax_failures=1001\n",
        "empty number": "[a]\ncommand=true\nbackoff_ms=\n", "fraction": "[a]\ncommand=true\nbackoff_ms=1.5\n", "number with a unit": "[a]\ncommand=true\nstop_timeout_ms=5s\n",
        "number with an underscore": "[a]\ncommand=true\nbackoff_max_ms=1_0\n", "huge number": "[a]\ncommand=true\nstop_timeout_ms=60001\n",
        "bad signal": "[a]\ncommand=true\nstop_signal=KILL\n", "signal with SIG": "[a]\ncommand=true\nstop_signal=SIGTERM\n", "small signal": "[a]\ncommand=true\nstop_signal=term\n",
        "error after good services": "[a]\ntype=oneshot\ncommand=: >MARK\n[b]\ncommand=: >MARK\ntype=never\n",
    }

    def refused(self, args):
        done = subprocess.run([PROGRAM] + args, cwd=self.dir, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=patience(),
                              **guard.WHO)
        self.assertEqual((done.returncode, done.stdout), (2, b""))
        self.assertNotEqual(done.stderr.strip(), b"")

    def test_errors(self):
        for what, text in self.CASES.items():
            with self.subTest(what):
                with open(self.path("bad.conf"), "w") as f:
                    f.write(text.replace("MARK", self.path("mark")))
                self.refused([self.path("bad.conf"), self.path("new")])
                self.assertEqual(os.listdir(self.dir), ["bad.conf"])

    def test_missing_file_and_arguments(self):
        self.refused([self.path("none.conf"), self.path("new")])
        self.refused([])
        with open(self.path("a.conf"), "w") as f:
            f.write("[a]\ntype=oneshot\ncommand=true\n")
        self.refused([self.path("a.conf")])
        self.refused([self.path("a.conf"), self.path("new"), "more"])
        self.assertEqual(os.listdir(self.dir), ["a.conf"])

    def test_directory_is_left_alone(self):
        self.prepare("state", "old\n")
        with open(self.path("bad.conf"), "w") as f:
            f.write("[a]\n")
        self.refused([self.path("bad.conf"), self.path("run")])
        self.assertEqual(os.listdir(self.path("run")), ["state"])
        self.assertEqual(self.text("run/state"), "old\n")


if __name__ == "__main__":
    unittest.main()
