#!/usr/bin/env python3
"""superv CONFIG DIR: starts, watches and stops services."""
import os
import re
import signal
import sys
import time

FINAL = {"done", "exited", "failed", "blocked", "stopped"}
SIGNALS = ("TERM", "INT", "HUP", "QUIT", "USR1", "USR2")
TICK = 0.01


class ConfigError(Exception):
    pass


def choice(*allowed):
    def check(value):
        if value not in allowed:
            raise ConfigError("%r is not one of %s" % (value, ", ".join(allowed)))
        return value
    return check


def number(top):
    def check(value):
        if not re.fullmatch("[0-9]+", value) or len(value.lstrip("0")) > 6 or int(value) > top:
            raise ConfigError("%r is not a number from 0 to %d" % (value, top))
        return int(value)
    return check


def text(value):
    if not value:
        raise ConfigError("empty value")
    return value


KEYS = {
    "command": (text, None),
    "type": (choice("daemon", "oneshot"), "daemon"),
    "requires": (lambda v: re.split("[ \t]+", v) if v else [], []),
    "ready": (text, None),
    "restart": (choice("no", "on-failure", "always"), "no"),
    "max_failures": (number(1000), 3),
    "backoff_ms": (number(60000), 100),
    "backoff_max_ms": (number(60000), 1000),
    "stop_signal": (choice(*SIGNALS), "TERM"),
    "stop_timeout_ms": (number(60000), 5000),
}


class Service:
    def __init__(self, name):
        self.name = name
        self.options = {}
        self.state, self.process, self.starts, self.failures = "waiting", None, 0, 0
        self.settled = False      # was up, done or final once
        self.to_stop = False
        self.due = self.deadline = 0.0

    def __getattr__(self, key):
        if key not in KEYS:
            raise AttributeError(key)
        return self.options.get(key, KEYS[key][1])


def read_config(path):
    services = {}
    current = None
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="\n") as f:
            lines = f.read().split("\n")
    except OSError as e:
        raise ConfigError(str(e))
    for number_, line in enumerate(lines, 1):
        line = line.strip(" \t")
        if not line or line[0] in "#;":
            continue
        try:
            section = re.fullmatch(r"\[([A-Za-z0-9_-]+)\]", line)
            if section:
                if section[1] in services:
                    raise ConfigError("service %s twice" % section[1])
                current = services[section[1]] = Service(section[1])
                continue
            key, equals, value = line.partition("=")
            key, value = key.strip(" \t"), value.strip(" \t")
            if not equals or key not in KEYS:
                raise ConfigError("not understood")
            if current is None:
                raise ConfigError("no service yet")
            if key in current.options:
                raise ConfigError("%s twice" % key)
            current.options[key] = KEYS[key][0](value)
        except ConfigError as e:
            raise ConfigError("line %d: %s" % (number_, e))
    if not services:
        raise ConfigError("no services")
    for s in services.values():
        if s.command is None:
            raise ConfigError("%s has no command" % s.name)
        if s.type == "oneshot" and (s.ready or s.restart == "always"):
            raise ConfigError("%s is a oneshot: no ready, no restart = always" % s.name)
        for r in s.requires:
            if r not in services or r == s.name:
                raise ConfigError("%s cannot require %s" % (s.name, r))
    return services


def start_order(services):
    order = []
    while len(order) < len(services):
        names = {s.name for s in order}
        for s in services.values():
            if s.name not in names and names.issuperset(s.requires):
                order.append(s)
                break
        else:
            raise ConfigError("services require each other in a circle")
    return order


class Supervisor:
    def __init__(self, services, order, directory):
        self.services, self.order, self.directory = services, order, directory
        self.turn = 0
        self.stops = []           # in reverse start order; the first may be under way
        self.asked = self.ending = False

    # what it tells

    def save(self):
        path = os.path.join(self.directory, "state")
        with open(path + ".new", "w") as f:
            for s in self.services.values():
                pid = s.process.pid if s.process else "-"
                f.write("%s %s %s %d %d\n" % (s.name, s.state, pid, s.starts, s.failures))
        os.replace(path + ".new", path)

    def tell(self, *words):
        self.save()
        os.write(1, (" ".join(map(str, words)) + "\n").encode())

    def enter(self, s, state, *event):
        s.state = state
        if state in FINAL or state == "up":
            s.settled = True
        self.tell(*(event or (state, s.name)))

    # one service

    def start(self, s):
        # Only here: a configuration that is refused is refused sooner.
        import subprocess

        s.starts += 1
        if s.ready:
            try:
                os.unlink(s.ready)
            except OSError:
                pass
        env = dict(os.environ, SUPERV_NAME=s.name, SUPERV_START=str(s.starts))
        with open(os.path.join(self.directory, s.name + ".log"), "ab") as log:
            s.process = subprocess.Popen(["/bin/sh", "-c", s.command], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env,
                                         preexec_fn=prepare_child)
        self.enter(s, "starting", "start", s.name, s.starts)
        if s.type == "daemon" and not s.ready:
            self.enter(s, "up")

    def signal(self, s, which):
        try:
            os.killpg(s.process.pid, which)
        except ProcessLookupError:
            pass

    def ended(self, s, status):
        try:
            os.killpg(s.process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        if s.state == "starting" and s.ready and os.path.lexists(s.ready):
            self.enter(s, "up")
        was_up = s.state == "up"
        s.process = None
        status = 128 - status if status < 0 else status
        if s.to_stop:
            s.state = "stopped"
            self.tell("end", s.name, status)
            self.enter(s, "stopped")
            return
        good = status == 0 and (s.type == "oneshot" or was_up)
        s.failures = s.failures + 1 if not good else 0 if s.type == "daemon" else s.failures
        if good:
            next_state = "done" if s.type == "oneshot" else "starting" if s.restart == "always" else "exited"
        else:
            next_state = "failed" if s.restart == "no" or s.failures > s.max_failures else "backoff"
        s.state = next_state
        self.tell("end", s.name, status)
        if next_state == "starting":
            self.start(s)
        elif next_state == "backoff":
            delay = min(s.backoff_ms * 2 ** (s.failures - 1), s.backoff_max_ms)
            s.due = time.monotonic() + delay / 1000
            self.enter(s, "backoff", "backoff", s.name, delay)
        else:
            self.enter(s, next_state)
            if next_state == "failed":
                self.cascade(s)

    # several

    def cascade(self, failed):
        hit = {failed.name}
        for s in self.order:
            if hit.intersection(s.requires):
                hit.add(s.name)
        affected = [s for s in self.order if s.name in hit and s.state not in FINAL]
        for s in affected:
            if s.state == "waiting":
                self.enter(s, "blocked")
        self.stop_all([s for s in affected if s.state not in FINAL])

    def stop_all(self, services):
        for s in services:
            s.to_stop = True
        waiting = [s for s in reversed(self.order) if s.to_stop and s.state not in FINAL]
        # One that is being stopped already comes first.
        self.stops = sorted(waiting, key=lambda s: s.state != "stopping")

    def work_on_stops(self):
        while self.stops:
            s = self.stops[0]
            if s.state in FINAL:
                self.stops.pop(0)
            elif s.process is None:
                self.enter(s, "stopped")
            elif s.state != "stopping":
                # The line must tell of a signal that was sent, and the file must not be behind it.
                self.signal(s, getattr(signal, "SIG" + s.stop_signal))
                s.deadline = time.monotonic() + s.stop_timeout_ms / 1000
                self.enter(s, "stopping", "stop", s.name)
                return
            else:
                if s.deadline and time.monotonic() >= s.deadline:
                    s.deadline = 0
                    self.signal(s, signal.SIGKILL)
                    self.tell("kill", s.name)
                return

    def work_on_turn(self):
        while self.turn < len(self.order) and not self.ending:
            s = self.order[self.turn]
            if s.state == "waiting":
                if not all(self.services[r].state in ("up", "done", "exited") for r in s.requires):
                    return
                self.start(s)
            if not s.settled:
                return
            self.turn += 1

    def step(self):
        for s in self.order:
            if s.process:
                status = s.process.poll()
                if status is not None:
                    self.ended(s, status)
                elif s.state == "starting" and s.ready and os.path.lexists(s.ready):
                    self.enter(s, "up")
        if self.asked and not self.ending:
            self.ending = True
            self.stop_all([s for s in self.order if s.state not in FINAL])
        self.work_on_stops()
        for s in self.order:
            if s.state == "backoff" and not s.to_stop and time.monotonic() >= s.due:
                self.start(s)
        self.work_on_turn()

    def run(self):
        def ask(*_):
            self.asked = True
        signal.signal(signal.SIGTERM, ask)
        signal.signal(signal.SIGINT, ask)
        self.save()
        while any(s.state not in FINAL for s in self.order):
            self.step()
            time.sleep(TICK)
        return 1 if any(s.state in ("failed", "blocked") for s in self.order) else 0


def prepare_child():
    os.setpgid(0, 0)
    for name in SIGNALS + ("PIPE",):
        signal.signal(getattr(signal, "SIG" + name), signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def main(argv):
    try:
        if len(argv) != 3:
            raise ConfigError("usage: superv CONFIG DIR")
        services = read_config(argv[1])
        order = start_order(services)
    except ConfigError as e:
        print("superv: %s" % e, file=sys.stderr)
        return 2
    os.makedirs(argv[2], exist_ok=True)
    return Supervisor(services, order, argv[2]).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv))
