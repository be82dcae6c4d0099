"""Grades /app/superv with configurations it has not seen."""
import os
import signal
import subprocess
import threading
import time
import unittest

import guard

PROGRAM = "/app/superv"
WAITED_FOR_NOTHING = []


def pace():
    """Seconds for which it is worth waiting for something that should happen soon: as long as 500 starts of a shell take here."""
    started = time.monotonic()
    for _ in range(5):
        subprocess.run(["/bin/sh", "-c", ":"])
    return min(15.0, max(8.0, 100 * (time.monotonic() - started)))


PACE = pace()


def patience():
    """Less once it was in vain: that settles the verdict."""
    return max(0.3, PACE / 4 ** len(WAITED_FOR_NOTHING))


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
                WAITED_FOR_NOTHING.append(event)
                self.case.fail("no %r in %r; standard error: %r" % (event, self.events, self.stderr.read()[-500:]))

    def wait_until(self, condition, what):
        deadline = time.monotonic() + patience()
        while not condition():
            if time.monotonic() > deadline:
                WAITED_FOR_NOTHING.append(what)
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
            WAITED_FOR_NOTHING.append("the end")
            self.case.fail("superv still runs; events %r" % self.events)
        self.reader.join(patience())
        self.case.assertEqual(got, status, "exit status; events %r" % self.events)

    def of(self, *names):
        """The events of some services."""
        return [e for e in self.events if e.split()[1] in names]


class Case(unittest.TestCase):
    def setUp(self):
        self.assertTrue(os.access(PROGRAM, os.X_OK), "there is no program " + PROGRAM)
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


def until(name):
    """A shell command that waits for a file in the folder of the test."""
    return "while [ ! -e $T/%s ]; do sleep 0.02; done" % name


class StartOrder(Case):
    def test_required_services_come_first(self):
        r = Run(self, "[c]\ntype=oneshot\ncommand=echo c >>$T/trace\nrequires=b\n[b]\ntype=oneshot\ncommand=echo b >>$T/trace\nrequires=a\n"
                      "[a]\ntype=oneshot\ncommand=sleep 0.1; echo a >>$T/trace\n")
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

    def test_ready_files_gates_and_the_end_of_groups(self):
        """One after the other; then all are stopped in reverse order, each with its whole group."""
        self.touch("ready")
        r = Run(self, "[web]\ncommand=exec sleep 1000\nrequires=db first\n"
                      "[first]\ntype=oneshot\ncommand=%s\n"
                      "[db]\ncommand=[ -e @/ready ] && echo stale; %s; : >@/ready; exec sleep 1000\nready=@/ready\n"
                      "[shell]\ncommand=echo $$ >@/pid.new; mv @/pid.new @/pid; while :; do sleep 1; done\nready=@/pid\n"
                      "[group]\ncommand=sleep 1000 & echo $! >@/child.new; mv @/child.new @/child; wait\nready=@/child\n"
                      "[hard]\ncommand=(trap '' TERM; : >@/hard.up; exec sleep 1000) & echo $! >@/hard; wait\nready=@/hard.up\n"
                      "[gone]\ncommand=: >@/g\nready=@/g\n" % (until("go.1"), until("go.2")))
        r.wait_for("start first 1")
        self.assertEqual((r.states()["first"], r.states()["db"]), ("starting", "waiting"))
        self.touch("go.1")
        r.wait_for("start db 1")
        self.assertEqual((r.states()["web"], r.states()["db"]), ("waiting", "starting"))
        self.assertTrue(alive(r.pid("db")))
        self.assertEqual(r.events, ["start first 1", "end first 0", "done first", "start db 1"])
        self.touch("go.2")
        r.wait_for("exited gone")
        self.assertEqual(r.events[4:], ["up db", "start web 1", "up web", "start shell 1", "up shell", "start group 1", "up group", "start hard 1", "up hard",
                                        "start gone 1", "up gone", "end gone 0", "exited gone"])
        self.assertEqual((r.states()["web"], r.states()["db"]), ("up", "up"))
        self.assertEqual(self.text("run/db.log"), "")
        self.assertEqual(r.pid("shell"), int(self.text("pid")))
        r.wait_until(lambda: os.path.exists(self.path("hard")) and self.text("hard"), "number of the child")
        children = int(self.text("child")), int(self.text("hard"))
        self.assertEqual([alive(child) for child in children], [True, True])
        r.term()
        r.ends(0)
        self.assertEqual(r.events[17:], ["%s %s" % (what, name) + " 143" * (what == "end") for name in ("hard", "group", "shell", "web", "db") for what in ("stop", "end", "stopped")])
        r.wait_until(lambda: not any(map(alive, children)), "the children are gone")
        self.assertEqual((r.states()["first"], r.states()["gone"]), ("done", "exited"))


class ByItself(Case):
    """Services that all come to an end, in one run that several tests look at."""

    CONFIG = ("[bad]\ntype=oneshot\ncommand=exit 1\n[child]\ntype=oneshot\ncommand=true\nrequires=bad\n[good]\ntype=oneshot\ncommand=true\n"
              "[env]\ntype=oneshot\nrestart=on-failure\nbackoff_ms=0\n"
              "command=echo $SUPERV_NAME $SUPERV_START $FROM_OUTSIDE; echo err >&2; wc -c; pwd; [ $SUPERV_START = 2 ]\n"
              "[log]\ntype=oneshot\ncommand=echo after\n"
              "[group]\ntype=oneshot\ncommand=echo $$; cat /proc/$$/stat; cat /proc/self/status; true\n"
              "\t # comment\n ; comment\n\n  [ok_1-A]  \n\tcommand\t =  echo 'a=b' # c ; d  \n type=oneshot\n requires =\n"
              "[tired]\ntype=oneshot\ncommand=exit $SUPERV_START\nrestart=on-failure\nmax_failures=2\nbackoff_ms=1\n"
              "[never]\ncommand=exit 1\nrestart=always\nmax_failures=0\n"
              "[plain]\ncommand=exit 3\n[fine]\ncommand=exit 0\n[kept]\ncommand=exit 0\nrestart=on-failure\n"
              "[quick]\ncommand=: >@/ready\nready=@/ready\n"
              "[killed]\ncommand=kill -KILL $$\n[shot]\ntype=oneshot\ncommand=kill -USR1 $$\n")
    problem = None

    @classmethod
    def setUpClass(cls):
        cls.owner = Case()
        cls.addClassCleanup(cls.owner.doCleanups)
        try:
            cls.owner.setUp()
            cls.owner.prepare("log.log", "before\n")
            cls.owner.prepare("state", "a failed - 9 9\nzzz done - 1 1\n")
            cls.run_once = Run(cls.owner, cls.CONFIG)
            cls.run_once.ends(1)
        except (AssertionError, OSError) as error:
            cls.problem = str(error)

    def setUp(self):
        if self.problem is not None:
            self.fail(self.problem)
        self.dir = self.owner.dir

    def tells(self, name, *events):
        self.assertEqual(self.run_once.of(name), [event.replace(" ", " %s " % name, 1) if " " in event else "%s %s" % (event, name) for event in events])

    def ends_as(self, name, *parts):
        self.assertEqual(next(line for line in self.run_once.state() if line[0] == name)[1:], list(parts))

    def test_failure_at_the_start(self):
        self.assertEqual(self.run_once.events[:7], ["start bad 1", "end bad 1", "failed bad", "blocked child", "start good 1", "end good 0", "done good"])
        self.ends_as("child", "blocked", "-", "0", "0")

    def test_environment_and_input(self):
        self.assertEqual(self.text("run/env.log").split(), ["env", "1", "yes", "err", "0", self.dir, "env", "2", "yes", "err", "0", self.dir])

    def test_log_is_appended_to(self):
        self.assertEqual(self.text("run/log.log"), "before\nafter\n")

    def test_old_state_does_not_matter(self):
        self.assertEqual([line[0] for line in self.run_once.state()], ["bad", "child", "good", "env", "log", "group", "ok_1-A", "tired", "never", "plain", "fine", "kept", "quick", "killed", "shot"])

    def test_own_process_group_and_signals(self):
        lines = self.text("run/group.log").splitlines()
        group = int(lines[1].rpartition(")")[2].split()[2])
        self.assertEqual(group, int(lines[0]))
        masks = [line for line in lines if line.startswith(("SigIgn:", "SigBlk:"))]
        self.assertEqual(len(masks), 2)
        for line in masks:
            mask = int(line.split()[1], 16)
            for which in ("TERM", "INT", "HUP", "QUIT", "USR1", "USR2", "PIPE"):
                self.assertFalse(mask >> getattr(signal, "SIG" + which) - 1 & 1, "%s: %s" % (which, line))

    def test_values_are_taken_as_they_are(self):
        self.assertEqual(self.text("run/ok_1-A.log"), "a=b\n")

    def test_giving_up(self):
        self.tells("tired", "start 1", "end 1", "backoff 1", "start 2", "end 2", "backoff 2", "start 3", "end 3", "failed")
        self.ends_as("tired", "failed", "-", "3", "3")

    def test_no_failure_allowed(self):
        self.tells("never", "start 1", "up", "end 1", "failed")

    def test_no_restart_by_default(self):
        self.tells("plain", "start 1", "up", "end 3", "failed")
        self.tells("fine", "start 1", "up", "end 0", "exited")

    def test_on_failure_does_not_restart_after_success(self):
        self.tells("kept", "start 1", "up", "end 0", "exited")
        self.ends_as("kept", "exited", "-", "1", "0")

    def test_ready_seen_when_the_process_has_ended(self):
        self.tells("quick", "start 1", "up", "end 0", "exited")

    def test_death_by_signal(self):
        self.tells("killed", "start 1", "up", "end 137", "failed")
        self.tells("shot", "start 1", "end %d" % (128 + signal.SIGUSR1), "failed")


class Restarts(Case):
    def test_restarts_of_several_kinds(self):
        """Growing delays; a count that is set back; readiness that counts anew; others that wait meanwhile; what is left of a group."""
        r = Run(self, "[grow]\ncommand=date +%%s%%N >>$T/times; [ $SUPERV_START -ge 5 ] && exec sleep 1000; exit 7\n"
                      "restart=on-failure\nmax_failures=4\nbackoff_ms=40\nbackoff_max_ms=100\n"
                      "[back]\ncommand=case $SUPERV_START in 3|4) exit 0;; 7) exec sleep 1000;; *) exit 1;; esac\nrestart=always\nmax_failures=2\nbackoff_ms=3\n"
                      "[early]\ncommand=[ $SUPERV_START = 2 ] && { : >@/early; exec sleep 1000; }; exit 0\nready=@/early\nrestart=on-failure\nbackoff_ms=5\n"
                      "[anew]\ncommand=[ -e @/anew ] && echo stale; [ $SUPERV_START = 1 ] || %s; : >@/anew; [ $SUPERV_START = 1 ] && exit 5; exec sleep 1000\n"
                      "ready=@/anew\nrestart=on-failure\nbackoff_ms=5\n"
                      "[rest]\ncommand=sleep 1000 & echo $! >$T/child.$SUPERV_START; [ $SUPERV_START = 1 ] && exit 4; wait\nrestart=on-failure\nbackoff_ms=1\n"
                      "[base]\ncommand=%s; exit 9\nrestart=on-failure\nbackoff_ms=1\n"
                      "[top]\ncommand=exec sleep 1000\nrequires=base\n"
                      "[slow]\ntype=oneshot\ncommand=%s\n[last]\ntype=oneshot\ncommand=true\n" % (until("go.1"), until("die.$SUPERV_START"), until("go.2")))
        r.wait_for("start anew 2")
        self.assertEqual(r.states()["anew"], "starting")
        r.wait_for("start slow 1")
        pid = r.pid("top")
        self.touch("die.1")
        r.wait_for("start base 2")
        self.assertEqual((r.states()["top"], r.pid("top"), r.states()["last"]), ("up", pid, "waiting"))
        self.assertTrue(alive(pid))
        self.touch("go.1")
        self.touch("go.2")
        r.wait_for("done last")
        r.wait_for("up anew", 2)
        r.wait_for("up grow", 5)
        r.wait_for("up back", 7)
        r.wait_for("start rest 2")
        r.wait_until(lambda: os.path.exists(self.path("times")) and len(self.text("times").split()) == 5, "five times")
        self.assertEqual(r.of("grow"), ["start grow 1", "up grow", "end grow 7", "backoff grow 40", "start grow 2", "up grow", "end grow 7", "backoff grow 80",
                                        "start grow 3", "up grow", "end grow 7", "backoff grow 100", "start grow 4", "up grow", "end grow 7", "backoff grow 100", "start grow 5", "up grow"])
        times = [int(t) for t in self.text("times").split()]
        for (a, b), least in zip(zip(times, times[1:]), (40, 80, 100, 100)):
            self.assertGreaterEqual((b - a) / 1e6, least - 1)
        fail = lambda n, ms: ["start back %d" % n, "up back", "end back 1", "backoff back %d" % ms]
        good = lambda n: ["start back %d" % n, "up back", "end back 0"]
        self.assertEqual(r.of("back"), fail(1, 3) + fail(2, 6) + good(3) + good(4) + fail(5, 3) + fail(6, 6) + ["start back 7", "up back"])
        self.assertEqual(r.of("early"), ["start early 1", "end early 0", "backoff early 5", "start early 2", "up early"])
        self.assertLess(r.events.index("up early"), r.events.index("start anew 1"))
        self.assertEqual(r.of("anew"), ["start anew 1", "up anew", "end anew 5", "backoff anew 5", "start anew 2", "up anew"])
        self.assertEqual(self.text("run/anew.log"), "")
        self.assertEqual([line[1:2] + line[3:] for line in r.state()[:2]], [["up", "5", "4"], ["up", "7", "2"]])
        child = int(self.text("child.1"))
        r.wait_until(lambda: not alive(child), "the child of the first start is gone")
        r.term()
        r.ends(0)


class Stopping(Case):
    CHAIN = ("[c]\ncommand=trap 'echo c >>$T/trace; exit 3' TERM; : >@/c.up; while :; do sleep 0.02; done\nrequires=b\nready=@/c.up\n"
             "[a]\ncommand=trap 'echo a >>$T/trace; exit 0' INT; : >@/a.up; while :; do sleep 0.02; done\nready=@/a.up\nstop_signal=INT\n"
             "[b]\ncommand=trap 'sleep 0.1; echo b >>$T/trace; exit 0' USR1; : >@/b.up; while :; do sleep 0.02; done\nrequires=a\nready=@/b.up\n"
             "stop_signal=USR1\nrestart=always\n")
    CHAIN_STOPS = ["stop c", "end c 3", "stopped c", "stop b", "end b 0", "stopped b", "stop a", "end a 0", "stopped a"]

    def test_reverse_order_one_at_a_time(self):
        r = Run(self, self.CHAIN)
        r.wait_for("up c")
        r.term(signal.SIGINT)
        r.ends(0)
        self.assertEqual(r.events[6:], self.CHAIN_STOPS)
        self.assertEqual(self.text("trace"), "c\nb\na\n")
        self.assertEqual(r.state(), [["c", "stopped", "-", "1", "0"], ["a", "stopped", "-", "1", "0"], ["b", "stopped", "-", "1", "0"]])

    def test_more_signals_have_no_effect_and_kill_after_the_timeout(self):
        r = Run(self, "[hard]\ncommand=trap '' TERM; : >@/hard.up; while :; do sleep 0.02; done\nready=@/hard.up\nstop_timeout_ms=200\n" + self.CHAIN)
        r.wait_for("up c")
        started = time.monotonic()
        r.term()
        r.wait_for("stop b")
        r.term()
        r.term(signal.SIGINT)
        r.ends(0)
        self.assertGreaterEqual(time.monotonic() - started, 0.1 + 0.2)
        self.assertEqual(r.events[8:], self.CHAIN_STOPS + ["stop hard", "kill hard", "end hard 137", "stopped hard"])

    def test_while_services_are_being_started_or_wait_for_a_restart(self):
        r = Run(self, "[wait]\ncommand=exit 1\nrestart=on-failure\nbackoff_ms=0000000050000\nbackoff_max_ms=050000\n"
                      "[soon]\ncommand=exit 1\nrestart=on-failure\nbackoff_ms=60000\n"
                      "[a]\ncommand=exec sleep 1000\n[b]\ntype=oneshot\ncommand=exec sleep 1000\n[c]\ncommand=exec sleep 1000\n[d]\ncommand=exec sleep 1000\n")
        r.wait_for("start b 1")
        r.wait_for("backoff wait 50000")
        self.assertEqual(r.state()[0], ["wait", "backoff", "-", "1", "1"])
        r.wait_for("backoff soon 1000")
        mark = len(r.events)
        r.term()
        r.ends(0)
        self.assertEqual([e for e in r.events[mark:] if e.split()[1] != "soon"],
                         ["stopped d", "stopped c", "stop b", "end b 143", "stopped b", "stop a", "end a 143", "stopped a", "stopped wait"])
        self.assertEqual(r.state()[4], ["c", "stopped", "-", "0", "0"])

    def test_ends_by_itself_before_its_turn(self):
        """And the state file is replaced, not rewritten: whoever has it open still sees the old one."""
        r = Run(self, "[a]\ncommand=%s; exit 6\nrestart=always\nbackoff_ms=0\n"
                      "[b]\ncommand=trap ': >$T/die; %s; exit 0' TERM; : >@/b.up; while :; do sleep 0.02; done\nready=@/b.up\n" % (until("die"), until("go")))
        r.wait_for("up b")
        with open(os.path.join(r.dir, "state")) as f:
            old = "a up %d 1 0\nb up %d 1 0\n" % (r.pid("a"), r.pid("b"))
            r.term()
            r.wait_for("stopped a")
            self.assertEqual(f.read(), old)
        self.assertEqual(r.states(), {"a": "stopped", "b": "stopping"})
        self.assertTrue(alive(r.pid("b")))
        self.touch("go")
        r.ends(0)
        self.assertEqual(r.of("a"), ["start a 1", "up a", "end a 6", "stopped a"])
        self.assertEqual(self.text("run/state"), "a stopped - 1 0\nb stopped - 1 0\n")


class Failures(Case):
    def test_dependents_are_blocked_or_stopped(self):
        r = Run(self, "[base]\ncommand=%s; exit 1\n"
                      "[mid]\ncommand=exec sleep 1000\nrequires=base\n"
                      "[other]\ncommand=exec sleep 1000\n"
                      "[top]\ncommand=exec sleep 1000\nrequires=mid\n"
                      "[ran]\ntype=oneshot\ncommand=true\nrequires=base\n"
                      "[retry]\ncommand=exit 2\nrestart=on-failure\nbackoff_ms=60000\nbackoff_max_ms=60000\nrequires=base\n"
                      "[gate]\ntype=oneshot\ncommand=%s\n"
                      "[late]\ncommand=exec sleep 1000\nrequires=top gate\n"
                      "[later]\ncommand=exec sleep 1000\nrequires=late\n"
                      "[free]\ncommand=exec sleep 1000\nrequires=other gate\n" % (until("die"), until("go")))
        r.wait_for("start gate 1")
        r.wait_for("backoff retry 60000")
        mark = len(r.events)
        self.touch("die")
        r.wait_for("stopped mid")
        self.assertEqual(r.events[mark:], ["end base 1", "failed base", "blocked late", "blocked later", "stopped retry", "stop top", "end top 143", "stopped top",
                                           "stop mid", "end mid 143", "stopped mid"])
        self.assertEqual(r.states(), {"base": "failed", "mid": "stopped", "other": "up", "top": "stopped", "ran": "done", "retry": "stopped", "gate": "starting",
                                      "late": "blocked", "later": "blocked", "free": "waiting"})
        self.touch("go")
        r.wait_for("up free")
        r.term()
        r.ends(1)
        self.assertEqual(r.events[-6:], ["stop free", "end free 143", "stopped free", "stop other", "end other 143", "stopped other"])


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

    def refused(self, *several):
        """Starts one superv for each list of arguments, a few at a time: none of them starts anything."""
        for at in range(0, len(several), 6):
            started = [subprocess.Popen([PROGRAM] + args, cwd=self.dir, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **guard.WHO)
                       for args in several[at:at + 6]]
            for process, args in zip(started, several[at:]):
                with self.subTest(args=args), process:
                    self.refuses(process)

    def refuses(self, process):
        try:
            out, err = process.communicate(timeout=patience())
        except subprocess.TimeoutExpired:
            WAITED_FOR_NOTHING.append("a refusal")
            process.kill()
            self.fail("superv still runs")
        self.assertEqual((process.returncode, out), (2, b""))
        self.assertNotEqual(err.strip(), b"")

    def config(self, name, text):
        with open(self.path(name), "w") as f:
            f.write(text)
        return self.path(name)

    def test_errors(self):
        paths = [self.config(what.replace(" ", "-"), text.replace("MARK", self.path("mark"))) for what, text in self.CASES.items()]
        self.refused(*([path, path + ".new"] for path in paths))
        self.assertEqual(sorted(os.listdir(self.dir)), sorted(map(os.path.basename, paths)))

    def test_missing_file_and_arguments(self):
        good = self.config("a.conf", "[a]\ntype=oneshot\ncommand=true\n")
        self.refused([self.path("none.conf"), self.path("new")], [], [good], [good, self.path("new"), "more"])
        self.assertEqual(os.listdir(self.dir), ["a.conf"])

    def test_directory_is_left_alone(self):
        self.prepare("state", "old\n")
        self.refused([self.config("bad.conf", "[a]\n"), self.path("run")])
        self.assertEqual(os.listdir(self.path("run")), ["state"])
        self.assertEqual(self.text("run/state"), "old\n")


if __name__ == "__main__":
    unittest.main()
