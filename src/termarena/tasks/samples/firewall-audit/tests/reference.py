"""What the rules mean, for the tests: parses valid rule files only and decides everything by the set of rules that a packet satisfies.

Two packets that satisfy the conditions of the same rules share their fate, so it is enough to look at one packet per such set. Deleting a rule is
the same as taking it out of all sets.
"""
import itertools

KINDS = {"proto": 3, "src": 1 << 32, "dst": 1 << 32, "sport": 1 << 16, "dport": 1 << 16}
NAMES = ["tcp", "udp", "icmp"]


def ip(text):
    a, b, c, d = map(int, text.split("."))
    return ((a * 256 + b) * 256 + c) * 256 + d


def bounds(kind, text):
    if kind == "proto":
        return NAMES.index(text), NAMES.index(text)
    if kind in ("src", "dst"):
        base, _, length = text.partition("/")
        return ip(base), ip(base) + 2 ** (32 - int(length or 32)) - 1
    low, _, high = text.partition("-")
    return int(low), int(high or low)


class Rules:
    def __init__(self, text):
        self.chains, self.rules, chain = {}, [], None
        for number, line in enumerate(text.split("\n"), 1):
            words = line.split("#")[0].split()
            if not words:
                continue
            if words[0] == "default":
                self.default = words[1]
            elif words[0] == "chain":
                chain = self.chains.setdefault(words[1], [])
                name = words[1]
            else:
                action = words.pop(0)
                target = words.pop(0) if action == "jump" else None
                tests = {k: (v[0] == "!", [bounds(k, i) for i in v.lstrip("!").split(",")]) for k, v in zip(words[::2], words[1::2])}
                chain.append(len(self.rules))
                self.rules.append((number, name, action, target, tests))

    def fits(self, kind, value):
        bits = 0
        for n, rule in enumerate(self.rules):
            negated, items = rule[4].get(kind, (True, []))
            if negated != any(low <= value <= high for low, high in items):
                bits |= 1 << n
        return bits

    def portless(self):
        return sum(1 << n for n, rule in enumerate(self.rules) if "sport" not in rule[4] and "dport" not in rule[4])

    def bits_of(self, packet):
        proto, src, dst, *ports = packet.split()
        bits = self.fits("proto", NAMES.index(proto)) & self.fits("src", ip(src)) & self.fits("dst", ip(dst))
        return bits & (self.fits("sport", int(ports[0])) & self.fits("dport", int(ports[1])) if ports else self.portless())

    def all_bits(self):
        some = {}
        for kind, size in KINDS.items():
            edges = {0} | {e for rule in self.rules for low, high in rule[4].get(kind, (0, []))[1] for e in (low, high + 1)}
            some[kind] = {self.fits(kind, e) for e in edges if e < size}
        both = {a & b for a, b in itertools.product(some["src"], some["dst"])}
        ports = {a & b for a, b in itertools.product(some["sport"], some["dport"])}
        found = {a & self.fits("proto", 2) & self.portless() for a in both}
        for proto in (0, 1):
            here = {a & self.fits("proto", proto) for a in both}
            found |= {a & b for a, b in itertools.product(here, ports)}
        return found

    def fate(self, bits, chain="INPUT", trail=None):
        """(verdict, rule) or None at the end of a chain other than INPUT; trail collects the rules arrived at."""
        for n in self.chains[chain]:
            if trail is not None:
                trail.add(n)
            if bits >> n & 1:
                action = self.rules[n][2]
                if action in ("accept", "drop"):
                    return action, n
                if action == "return":
                    break
                result = self.fate(bits, self.rules[n][3], trail)
                if result:
                    return result
        return (self.default, None) if chain == "INPUT" else None

    def check(self):
        possible, arrived, applied, needed = set(), set(), set(), set()
        memo = {}
        for bits in self.all_bits():
            possible |= {n for n in range(len(self.rules)) if n not in possible and bits >> n & 1}
            trail = set()
            verdict = self.fate(bits, trail=trail)[0]
            arrived |= trail
            for n in trail:
                if bits >> n & 1:
                    applied.add(n)
                    if n not in needed:
                        less = bits & ~(1 << n)
                        if less not in memo:
                            memo[less] = self.fate(less)[0]
                        if memo[less] != verdict:
                            needed.add(n)
        steps = [("impossible", possible), ("unreachable", arrived), ("shadowed", applied), ("redundant", needed)]
        return [(rule[0], rule[1], next((word for word, fine in steps if n not in fine), "needed")) for n, rule in enumerate(self.rules)]

    def query(self, packet):
        verdict, n = self.fate(self.bits_of(packet))
        return f"{verdict} {'default' if n is None else self.rules[n][0]}"


def report(text):
    return "".join(f"{line} {chain} {status}\n" for line, chain, status in Rules(text).check())
