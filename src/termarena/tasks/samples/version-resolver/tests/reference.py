"""A resolver for very small indexes that looks at every combination. As a program it prints what answers.py has to say."""
import itertools
import re

import indexes

# Small random problems: those that a greedy choice gets wrong, others, and contradictions.
SEEDS = [0, 14, 36, 47, 53, 55, 62, 67, 70, 78, 91, 99, 103, 104, 148, 154, 12, 93, 111, 358, 782, 871, 11, 43, 52, 85, 136, 139]


def key(version):
    numbers, _, pre = version.partition("-")
    parts = [(0, int(p)) if p.isdigit() else (1, p) for p in pre.split(".")] if pre else []
    return [int(n) for n in numbers.split(".")], 0 if pre else 1, parts


def parse(text):
    text = re.sub(r"[ \t]", "", text)
    name, extras, rest = re.fullmatch(r"([a-z0-9-]+)(?:\[([^\]]*)\])?(.*)", text).groups()
    constraints = [re.fullmatch(r"([=!<>~]+)(.*)", c).groups() for c in rest.split(",") if c]
    return name, set((extras or "").split(",")) - {""}, constraints


def admits(constraints, version):
    for op, wanted in constraints:
        a, b = key(version), key(wanted)
        ok = {"==": a == b, "!=": a != b, ">=": a >= b, "<=": a <= b, ">": a > b, "<": a < b, "~=": a >= b and a[0][:2] == b[0][:2]}[op]
        if not ok:
            return False
    return True


def choosable(index, lines, name):
    """The versions of a package that can be chosen at all."""
    versions = index.get(name, {})
    mine = [c for n, _, cs in map(parse, lines) if n == name for c in cs]
    pre_ok = any("-" in v for _, v in mine) or all("-" in v or e.get("yanked") for v, e in versions.items())
    return [v for v, e in versions.items() if (pre_ok or "-" not in v) and (not e.get("yanked") or ("==", v) in mine)]


def force(index, lines, lock):
    """The requirements in force in a lock, as far as it goes, and the active extras."""
    todo, extras, result, seen = [parse(t) for t in lines], {}, [], set()
    while todo:
        name, wanted, constraints = todo.pop()
        result.append((name, wanted, constraints))
        new = wanted - extras.setdefault(name, set())
        extras[name] |= new
        if name in lock:
            entry = index[name][lock[name]]
            if name not in seen:
                seen.add(name)
                todo += [parse(t) for t in entry.get("requires", [])]
            for e in new:
                todo += [parse(t) for t in entry.get("extras", {}).get(e, [])]
    return result, extras


def valid(index, lines, lock):
    required, extras = force(index, lines, lock)
    if {name for name, _, _ in required} != set(lock):
        return False
    for name, wanted, constraints in required:
        if not admits(constraints, lock[name]) or not wanted <= set(index[name][lock[name]].get("extras", {})):
            return False
    for name, version in lock.items():
        for other, _, constraints in map(parse, index[name][version].get("conflicts", [])):
            if other in lock and admits(constraints, lock[other]):
                return False
    return True


def locks(index, lines):
    names = sorted(index)
    options = [[None] + choosable(index, lines, n) for n in names]
    for combination in itertools.product(*options):
        lock = {n: v for n, v in zip(names, combination) if v is not None}
        if valid(index, lines, lock):
            yield lock


def resolve(index, lines):
    """Exit status and lines of the output."""
    left = list(locks(index, lines))
    if not left:
        keep = list(lines)
        at = 0
        while at < len(keep):
            rest = keep[:at] + keep[at + 1:]
            if any(True for _ in locks(index, rest)):
                at += 1
            else:
                keep = rest
        return 1, ["conflict"] + keep
    chosen = {}
    while True:
        required, extras = force(index, lines, chosen)
        missing = sorted({name for name, _, _ in required} - set(chosen))
        if not missing:
            return 0, ["%s%s==%s" % (n, "[%s]" % ",".join(sorted(extras[n])) if extras[n] else "", chosen[n]) for n in sorted(chosen)]
        name = missing[0]
        chosen[name] = max((lock[name] for lock in left), key=key)
        left = [lock for lock in left if lock[name] == chosen[name]]


if __name__ == "__main__":
    print('"""What the small random problems give, by their seeds: exit status and lines. Made by reference.py."""\n\nSMALL = {')
    for seed in SEEDS:
        print("    %d: %r," % (seed, resolve(*indexes.small(seed))))
    print("}")
