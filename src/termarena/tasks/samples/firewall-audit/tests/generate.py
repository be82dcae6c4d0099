"""Random rule files, always the same ones for a seed."""
import random

NETS = ["0.0.0.0/0", "10.0.0.0/8", "10.0.0.0/9", "10.128.0.0/9", "10.1.0.0/16", "10.1.1.0/24", "10.1.1.0/25", "10.1.1.128/25", "10.1.1.7", "10.1.1.200", "10.2.0.0/16",
        "192.0.2.0/24", "192.0.2.0/25", "192.0.2.128/25", "192.0.2.99", "198.51.100.0/24", "0.0.0.0/1", "128.0.0.0/1", "172.16.0.0/12", "172.20.0.0/16"]
PORTS = ["22", "53", "80", "443", "0-1023", "1024-65535", "8000-8999", "8080", "0-65535", "1-442", "444-65535", "0-79", "81-65535", "0", "65535", "123", "8000-8499", "8500-8999"]


NARROW_NETS = [n for n in NETS if not n.endswith(("/0", "/1", "/8", "/9"))]
NARROW_PORTS = [p for p in PORTS if p not in ("0-65535", "444-65535", "81-65535", "1024-65535")]


class Maker:
    """Wide rules soon leave nothing for those after them; narrow ones keep a long file interesting."""

    def __init__(self, seed, narrow=False):
        self.rng = random.Random(seed)
        self.narrow = narrow
        self.nets, self.ports = (NARROW_NETS, NARROW_PORTS) if narrow else (NETS, PORTS)

    def below(self, n):
        return int(self.rng.random() * n)

    def some(self, pool, most, negate):
        items = [pool[self.below(len(pool))] for _ in range(1 + self.below(most))]
        return ("!" if self.below(negate) == 0 else "") + ",".join(items)

    def rule(self, targets, width):
        kind = self.below(10)
        words = ["accept"] if kind < 4 else ["drop"] if kind < 7 else ["return"] if kind == 7 else ["jump", targets[self.below(len(targets))]] if targets else ["drop"]
        tests = []
        negate = 30 if self.narrow else 6
        if self.below(2):
            tests.append("proto " + self.some(["tcp", "udp", "icmp"], 2, negate))
        if self.below(3):
            tests.append("src " + self.some(self.nets, width, negate))
        if self.below(2) or self.narrow and not tests:
            tests.append("dst " + self.some(self.nets, width, negate))
        if self.below(4) == 0:
            tests.append("sport " + self.some(self.ports, width, negate))
        if self.below(2):
            tests.append("dport " + self.some(self.ports, width, negate))
        while tests:
            words.append(tests.pop(self.below(len(tests))))
        return " ".join(words)

    def file(self, count, chains=3, width=3):
        names = ["INPUT"] + [f"c-{i}_X" for i in range(chains)]
        share = [[] for _ in names]
        for i in range(count):
            n = 0 if self.below(2) else self.below(len(names))
            share[n].append(self.rule(names[n + 1:], width))
        order = list(range(len(names)))
        if self.below(2):
            order.reverse()
        default = ["accept", "drop"][self.below(2)]
        lines = ["# made by a machine", f"default {default}"] if self.below(2) else []
        for n in order:
            lines += ["", f"chain {names[n]}" + ["", "   # here", "\t"][self.below(3)]]
            lines += ["  " * self.below(2) + rule + ["", "  # note", " "][self.below(3)] for rule in share[n]]
        if not lines[0]:
            lines.append(f"\tdefault   {default}")
        return "\n".join(lines) + "\n"

    def packet(self):
        address = lambda: ["10.1.1.7", "10.1.1.5", "10.1.1.200", "10.2.3.4", "10.200.0.1", "192.0.2.1", "192.0.2.99", "192.0.2.200", "198.51.100.3", "172.20.1.1", "8.8.8.8",
                           "255.255.255.255", "0.0.0.0"][self.below(13)]
        port = lambda: [22, 53, 80, 443, 0, 1, 1023, 1024, 65535, 8080, 8500, 8999, 9000, 123][self.below(14)]
        proto = ["tcp", "udp", "icmp"][self.below(3)]
        return f"{proto} {address()} {address()}" + ("" if proto == "icmp" else f" {port()} {port()}")
