"""Large indexes whose right answer is known from how they are made, and small random ones."""


class Lcg:
    def __init__(self, seed):
        self.state = seed

    def __call__(self, n):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        return (self.state >> 33) % n


def numbered(count, entry=lambda n: {}):
    """Versions 1.0.0 to count.0.0."""
    return {"%d.0.0" % n: entry(n) for n in range(1, count + 1)}


def late_conflict(count):
    """The first choice is wrong, which only the end of a long chain shows."""
    index = {"aa-core": numbered(20), "app": {"1.0.0": {"requires": ["aa-core", "pp"] + ["m%03d" % i for i in range(count)]}}}
    for i in range(count):
        index["m%03d" % i] = numbered(20, lambda n: {"requires": ["m%03d>=%d.0.0" % (i + 1, max(1, n - 3))]} if i < count - 1 else {})
    index["pp"] = numbered(20, lambda n: {"requires": ["qq>=%d.0.0" % max(1, n - 5)]})
    index["qq"] = numbered(20, lambda n: {"requires": ["rr<=%d.0.0" % n]})
    index["rr"] = numbered(20, lambda n: {"requires": ["aa-core<8.0.0"]})
    want = ["aa-core==7.0.0", "app==1.0.0"] + ["m%03d==20.0.0" % i for i in range(count)] + ["pp==20.0.0", "qq==20.0.0", "rr==20.0.0"]
    return index, ["app"], want


def many_groups(count):
    """Small knots that are all met before the first one can be untied."""
    index, lines, want = {}, [], []
    for g in range(count):
        top = 3 + g * 7 % 15
        a, b, c = "a-%02d" % g, "b-%02d" % g, "c-%02d" % g
        index[a] = numbered(20, lambda n: {"requires": ["%s>=%d.0.0,<%d.0.0" % (b, n, n + 1)]})
        index[b] = numbered(20, lambda n: {"requires": ["%s>=%d.0.0" % (c, n)]})
        index[c] = numbered(20, lambda n: {"conflicts": ["%s>%d.0.0" % (a, top)]})
        lines.append(a)
        want += ["%s==%d.0.0" % (a, top), "%s==%d.0.0" % (b, top), "%s==20.0.0" % c]
    return index, lines, want


def staircase(count):
    """Each package must be at most one step above the next, and the last one is at the bottom."""
    index = {}
    for i in range(count):
        index["s%02d" % i] = numbered(20, lambda n: {"requires": ["s%02d>=%d.0.0,<=%d.0.0" % (i + 1, max(1, n - 1), n)]})
    index["s%02d" % count] = {"1.0.0": {}}
    want = ["s%02d==%d.0.0" % (i, min(20, 1 + count - i)) for i in range(count + 1)]
    return index, ["s00"], want


def late_failures():
    """150 packages with all three of these difficulties."""
    index, lines, want = {}, [], []
    for part in (late_conflict(62), many_groups(14), staircase(40)):
        index.update(part[0])
        lines += part[1]
        want += part[2]
    return index, lines, 0, sorted(want)


def three_in_a_crowd():
    """Three of 60 lines cannot go together, any two of them can."""
    index, lines = {"hub": numbered(20)}, []
    for i in range(57):
        name = "f%02d" % i
        index[name] = numbered(20, lambda n: {"requires": ["g%02d>=%d.0.0" % (i, n // 2 or 1)]})
        index["g%02d" % i] = numbered(20, lambda n: {"requires": ["hub"] if n % 3 else []})
        lines.append(name)
    index["left"] = numbered(20, lambda n: {"requires": ["left-b"]})
    index["left-b"] = numbered(20, lambda n: {"requires": ["hub<=15.0.0"]})
    index["right"] = numbered(20, lambda n: {"requires": ["right-b"]})
    index["right-b"] = numbered(20, lambda n: {"requires": ["hub>=12.0.0"]})
    index["pin"] = numbered(20, lambda n: {"requires": ["pin-b>=%d.0.0" % n]})
    index["pin-b"] = numbered(20, lambda n: {"requires": ["hub<12.0.0" if n % 2 else "hub>15.0.0"]})
    lines[10:10], lines[30:30], lines[50:50] = ["pin"], ["  left >= 2.0.0 "], ["right"]
    return index, lines, 1, ["conflict", "pin", "left >= 2.0.0", "right"]


def small(seed):
    """A random index of up to five packages, and lines."""
    rnd = Lcg(seed)
    for _ in range(5):
        rnd(2)
    names = ["a", "b", "c", "d", "e"][:3 + rnd(3)]
    pool = ["0.9.0", "1.0.0", "1.0.1", "1.2.0", "2.0.0", "1.2.0-rc.1", "2.0.0-beta.10"]
    have = {n: [v for v in pool if rnd(7) < 4][:4] or ["1.0.0"] for n in names}

    def requirement(owner, extras=True):
        others = [n for n in names if n != owner]
        name = others[rnd(len(others))] if rnd(40) else "nowhere"
        versions = have.get(name, pool)
        text = name
        if extras and rnd(4) == 0:
            text += "[%s]" % ("x", "y", "x,y")[rnd(3)]
        kind = rnd(10)
        v = versions[rnd(len(versions))]
        if kind < 6:
            text += ("", "!=" + v, ">=" + v, "<=" + v, "<=" + v, "~=" + v)[kind]
        elif kind == 6:
            text += "==" + v
        elif kind == 7:
            text += "!=%s,!=%s" % (v, versions[0])
        return text

    index = {}
    for name in names:
        index[name] = {}
        for v in have[name]:
            entry = {}
            if rnd(5) < 4:
                entry["requires"] = [requirement(name) for _ in range(1 + rnd(2))]
            if rnd(5) < 3:
                entry["extras"] = {x: [requirement(name)] for x in ("x", "y") if rnd(5)}
            if rnd(3) == 0:
                entry["conflicts"] = [requirement(name, False)]
            if rnd(9) == 0:
                entry["yanked"] = True
            index[name][v] = entry
    return index, [requirement(None) for _ in range(1 + rnd(4))]
