#!/usr/bin/env python3
"""resolve INDEX REQUIREMENTS OUTPUT

A search with learning, as in SAT solvers. Variables: "package P has version V",
"extra E of P is active", "line N counts". Choices are made in the order that
defines the right lock; when one fails, the clause learned from the conflict says
what really was to blame, and the search goes back there at once. A version is
passed over only if the clauses rule it out given the choices before it, so the
first solution found is the right one.
"""
import functools
import heapq
import json
import os
import re
import sys

NAME = r"[a-z0-9]+(?:-[a-z0-9]+)*"
NUM = r"(?:0|[1-9][0-9]*)"
IDENT = r"(?:0|[1-9][0-9]*|[0-9]*[A-Za-z][0-9A-Za-z]*)"
VERSION = r"%s\.%s\.%s(?:-%s(?:\.%s)*)?" % (NUM, NUM, NUM, IDENT, IDENT)
B = r"[ \t]*"
CONSTRAINT = r"(==|!=|>=|<=|~=|>|<)%s(%s)" % (B, VERSION)
REQUIREMENT = re.compile(r"{b}({n}){b}(?:\[{b}({n}(?:{b},{b}{n})*){b}\]{b})?((?:{c}(?:{b},{b}{c})*)?){b}".format(
    b=B, n=NAME, c=CONSTRAINT.replace("(==", "(?:==").replace("(" + VERSION, "(?:" + VERSION)))


@functools.lru_cache(maxsize=None)
def version_key(text):
    numbers, _, pre = text.partition("-")
    idents = tuple((0, int(i), "") if i.isdigit() else (1, 0, i) for i in pre.split(".")) if pre else ()
    return tuple(map(int, numbers.split("."))), not pre, idents


def holds(op, wanted, text):
    a, b = version_key(text), version_key(wanted)
    return {"==": a == b, "!=": a != b, ">=": a >= b, "<=": a <= b, ">": a > b, "<": a < b,
            "~=": a >= b and a[0][:2] == b[0][:2]}[op]


class Requirement:
    def __init__(self, text):
        m = REQUIREMENT.fullmatch(text)
        if not m:
            raise ValueError("not a requirement: %s" % text)
        self.text = text.strip(" \t")
        self.name = m[1]
        self.extras = sorted(set(re.findall(NAME, m[2] or "")))
        self.constraints = re.findall(CONSTRAINT, m[3])

    def admits(self, version):
        return all(holds(op, wanted, version) for op, wanted in self.constraints)


class Version:
    def __init__(self, text, entry):
        self.text = text
        self.pre = "-" in text
        self.requires = [Requirement(r) for r in entry.get("requires", [])]
        self.extras = {e: [Requirement(r) for r in rs] for e, rs in entry.get("extras", {}).items()}
        self.conflicts = [Requirement(r) for r in entry.get("conflicts", [])]
        self.yanked = entry.get("yanked", False)

    def entries(self):
        return self.requires + [r for rs in self.extras.values() for r in rs]


class Clauses:
    """Clauses over the variables 1, 2, ...; -v is the negation of v."""

    def __init__(self):
        self.value = [0]           # 1 true, -1 false, 0 open
        self.level = [0]
        self.reason = [None]
        self.trail, self.starts, self.head = [], [], 0
        self.watches = {}
        self.broken = False        # contradictory without any choice

    def new(self):
        self.value.append(0)
        self.level.append(0)
        self.reason.append(None)
        v = len(self.value) - 1
        self.watches[v], self.watches[-v] = [], []
        return v

    def truth(self, lit):
        return self.value[lit] if lit > 0 else -self.value[-lit]

    def put(self, lit, reason):
        v = abs(lit)
        self.value[v] = lit // v
        self.level[v] = len(self.starts)
        self.reason[v] = reason
        self.trail.append(lit)

    def add(self, lits):
        """Only before the search."""
        lits = list(dict.fromkeys(lits))
        if not lits:
            self.broken = True
        elif len(lits) == 1:
            if self.truth(lits[0]) < 0:
                self.broken = True
            elif self.truth(lits[0]) == 0:
                self.put(lits[0], None)
        else:
            self.watch(lits)

    def watch(self, lits):
        self.watches[lits[0]].append(lits)
        self.watches[lits[1]].append(lits)

    def propagate(self):
        """Draws all conclusions; returns a clause that failed, or None."""
        while self.head < len(self.trail):
            false = -self.trail[self.head]
            self.head += 1
            left = iter(self.watches[false])
            kept = self.watches[false] = []
            for clause in left:
                if clause[0] == false:
                    clause[0], clause[1] = clause[1], false
                first = clause[0]
                if self.truth(first) > 0:
                    kept.append(clause)
                    continue
                for i in range(2, len(clause)):
                    if self.truth(clause[i]) >= 0:
                        clause[1], clause[i] = clause[i], false
                        self.watches[clause[1]].append(clause)
                        break
                else:
                    kept.append(clause)
                    if self.truth(first) < 0:
                        kept.extend(left)
                        return clause
                    self.put(first, clause)
        return None

    def choose(self, lit):
        self.starts.append(len(self.trail))
        if lit:
            self.put(lit, None)

    def back_to(self, level):
        if len(self.starts) > level:
            for lit in self.trail[self.starts[level]:]:
                self.value[abs(lit)] = 0
            del self.trail[self.starts[level]:]
            del self.starts[level:]
        self.head = min(self.head, len(self.trail))

    def learn(self, clause):
        """Adds what a failed clause teaches, and goes back to where it was to blame."""
        here = len(self.starts)
        seen, rest, open_, at, lit = set(), [], 0, len(self.trail), None
        while True:
            for q in clause:
                v = abs(q)
                if q != lit and v not in seen and self.level[v] > 0:
                    seen.add(v)
                    if self.level[v] == here:
                        open_ += 1
                    else:
                        rest.append(q)
            while True:
                at -= 1
                if abs(self.trail[at]) in seen:
                    break
            lit = self.trail[at]
            open_ -= 1
            if open_ == 0:
                break
            clause = self.reason[abs(lit)]
        rest.sort(key=lambda q: -self.level[abs(q)])
        learned = [-lit] + rest
        self.back_to(self.level[abs(rest[0])] if rest else 0)
        if len(learned) > 1:
            self.watch(learned)
        self.put(-lit, learned if len(learned) > 1 else None)


class Problem:
    def __init__(self, index, lines):
        self.lines = lines
        self.packages = self.load(index)
        self.clauses = c = Clauses()
        self.selector = [c.new() for _ in lines]
        self.var, self.extra = {}, {}
        for name, versions in self.packages.items():
            for v in versions:
                self.var[name, v.text] = c.new()
        for line, s in zip(lines, self.selector):
            self.demand([-s], line)
        for name, versions in self.packages.items():
            self.describe(name, versions)

    def load(self, index):
        """All packages that may play a part, with their versions, greatest first."""
        packages, todo = {}, [line.name for line in self.lines]
        while todo:
            name = todo.pop()
            if name in packages:
                continue
            packages[name] = []
            path = os.path.join(index, name + ".json")
            if os.path.exists(path):
                with open(path) as f:
                    found = json.load(f)["versions"]
                packages[name] = [Version(t, found[t]) for t in sorted(found, key=version_key, reverse=True)]
            todo += [r.name for v in packages[name] for r in v.entries()]
        return packages

    def extra_var(self, name, extra):
        if (name, extra) not in self.extra:
            self.extra[name, extra] = self.clauses.new()
        return self.extra[name, extra]

    def demand(self, unless, r):
        fits = [v for v in self.packages[r.name] if r.admits(v.text) and all(e in v.extras for e in r.extras)]
        self.clauses.add(unless + [self.var[r.name, v.text] for v in fits])
        for e in r.extras:
            self.clauses.add(unless + [self.extra_var(r.name, e)])

    def describe(self, name, versions):
        c = self.clauses
        about = [(line, s) for line, s in zip(self.lines, self.selector) if line.name == name]
        only_pre = all(v.pre or v.yanked for v in versions)
        for i, v in enumerate(versions):
            x = self.var[name, v.text]
            for w in versions[:i]:
                c.add([-x, -self.var[name, w.text]])
            if v.pre and not only_pre:
                c.add([-x] + [s for line, s in about if any("-" in wanted for _, wanted in line.constraints)])
            if v.yanked:
                c.add([-x] + [s for line, s in about if ("==", v.text) in line.constraints])
            for r in v.requires:
                self.demand([-x], r)
            for extra, entries in v.extras.items():
                for r in entries:
                    self.demand([-x, -self.extra_var(name, extra)], r)
            for r in v.conflicts:
                for w in self.packages.get(r.name, []):
                    if r.admits(w.text):
                        c.add([-x, -self.var[r.name, w.text]])

    def walk(self, active):
        """Follows the selection as far as it is settled: the next choice, or None and the lock."""
        lock, extras = {}, {}
        queue, waiting = [], set()

        def ask(requirements):
            todo = list(requirements)
            while todo:
                r = todo.pop()
                known = extras.setdefault(r.name, set())
                new = set(r.extras) - known
                known |= new
                if r.name in lock:
                    for e in new:
                        todo += lock[r.name].extras[e]
                elif r.name not in waiting:
                    waiting.add(r.name)
                    heapq.heappush(queue, r.name)

        ask(self.lines[i] for i in active)
        while queue:
            name = queue[0]
            chosen = open_ = None
            for v in self.packages[name]:
                value = self.clauses.value[self.var[name, v.text]]
                if value > 0:
                    chosen = v
                    break
                if value == 0 and open_ is None:
                    open_ = v
            if chosen is None:
                return self.var[name, open_.text], None
            heapq.heappop(queue)
            lock[name] = chosen
            ask(chosen.requires + [r for e in sorted(extras[name]) for r in chosen.extras[e]])
        return None, ["%s%s==%s" % (n, "[%s]" % ",".join(sorted(extras[n])) if extras[n] else "", lock[n].text) for n in sorted(lock)]

    def solve(self, active):
        """The right lock for these lines (by number), or None."""
        c = self.clauses
        c.back_to(0)
        if c.broken:
            return None
        wanted = set(active)
        assumed = [s if i in wanted else -s for i, s in enumerate(self.selector)]
        while True:
            failed = c.propagate()
            if failed:
                if not c.starts:
                    c.broken = True
                    return None
                c.learn(failed)
            elif len(c.starts) < len(assumed):
                lit = assumed[len(c.starts)]
                if c.truth(lit) < 0:
                    return None
                c.choose(lit if c.truth(lit) == 0 else 0)
            else:
                choice, lock = self.walk(active)
                if choice is None:
                    return lock
                c.choose(choice)


def read_lines(path):
    lines, is_bad = [], False
    with open(path, encoding="utf-8", errors="replace") as f:
        for number, text in enumerate(f.read().split("\n"), 1):
            text = text.strip(" \t")
            if text and not text.startswith("#"):
                try:
                    lines.append(Requirement(text))
                except ValueError as e:
                    print("resolve: line %d: %s" % (number, e), file=sys.stderr)
                    is_bad = True
    if is_bad:
        sys.exit(2)
    return lines


def main(index, requirements, output):
    lines = read_lines(requirements)
    problem = Problem(index, lines)
    left = list(range(len(lines)))
    result, status = problem.solve(left), 0
    if result is None:
        for i in list(left):
            rest = [j for j in left if j != i]
            if problem.solve(rest) is None:
                left = rest
        result, status = ["conflict"] + [lines[i].text for i in left], 1
    with open(output, "w") as f:
        f.write("".join(line + "\n" for line in result))
    return status


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: resolve INDEX REQUIREMENTS OUTPUT")
    sys.exit(main(*sys.argv[1:]))
