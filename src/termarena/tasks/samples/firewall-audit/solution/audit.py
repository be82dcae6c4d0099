#!/usr/bin/env python3
"""audit check RULES | audit query RULES PACKETS

What becomes of a packet depends only on which rules' conditions it satisfies. So: for each dimension (protocol, source, destination, ports) find
the distinct sets of rules that a value can satisfy, as bit masks; intersect these dimension by dimension, dropping duplicates; the result is the set of all
masks that any packet can have. Deleting a rule is the same as clearing its bit.
"""
import sys

PROTOS = ("tcp", "udp", "icmp")


class Invalid(Exception):
    pass


class Rule:
    def __init__(self, line, chain, action, target, conditions):
        self.line, self.chain, self.action, self.target, self.conditions = line, chain, action, target, conditions


def is_number(text, most):
    return text.isascii() and text.isdigit() and len(text) <= len(str(most)) and int(text) <= most


def address(text):
    parts = text.split(".")
    if len(parts) != 4 or not all(is_number(p, 255) for p in parts):
        raise Invalid(f"bad address {text!r}")
    a, b, c, d = map(int, parts)
    return a << 24 | b << 16 | c << 8 | d


def item(kind, text):
    """An inclusive interval of integers."""
    if kind == "proto":
        if text not in PROTOS:
            raise Invalid(f"bad protocol {text!r}")
        return PROTOS.index(text), PROTOS.index(text)
    if kind in ("src", "dst"):
        base, slash, length = text.partition("/")
        if slash and not is_number(length, 32):
            raise Invalid(f"bad prefix {text!r}")
        low, size = address(base), 1 << 32 - int(length or 32)
        if low % size:
            raise Invalid(f"host bits set in {text!r}")
        return low, low + size - 1
    low, dash, high = text.partition("-")
    high = high if dash else low
    if not (is_number(low, 65535) and is_number(high, 65535) and int(low) <= int(high)):
        raise Invalid(f"bad port {text!r}")
    return int(low), int(high)


def parse_rule(line, chain, words):
    words = list(words)
    action = words.pop(0)
    target = None
    if action == "jump":
        if not words:
            raise Invalid("jump where?")
        target = words.pop(0)
    elif action not in ("accept", "drop", "return"):
        raise Invalid(f"unknown word {action!r}")
    conditions = {}
    while words:
        kind = words.pop(0)
        if kind not in ("proto", "src", "dst", "sport", "dport"):
            raise Invalid(f"unknown word {kind!r}")
        if kind in conditions or not words:
            raise Invalid(f"{kind} twice or without a list")
        text = words.pop(0)
        conditions[kind] = (text.startswith("!"), [item(kind, part) for part in text.removeprefix("!").split(",")])
    return Rule(line, chain, action, target, conditions)


def parse(path):
    with open(path, encoding="ascii") as file:
        lines = file.read().split("\n")
    default, chains, rules, chain = None, {}, [], None
    for number, text in enumerate(lines, 1):
        words = text.split("#", 1)[0].split()
        if not words:
            continue
        try:
            if words[0] == "default":
                if default or len(words) != 2 or words[1] not in ("accept", "drop"):
                    raise Invalid("bad default")
                default = words[1]
            elif words[0] == "chain":
                if len(words) != 2 or not words[1].replace("_", "a").replace("-", "a").isalnum() or words[1] in chains:
                    raise Invalid("bad chain")
                chain = words[1]
                chains[chain] = []
            elif chain is None:
                raise Invalid("no chain yet")
            else:
                rules.append(parse_rule(number, chain, words))
                chains[chain].append(len(rules) - 1)
        except Invalid as error:
            raise Invalid(f"line {number}: {error}") from None
    if default is None or "INPUT" not in chains:
        raise Invalid("no default or no INPUT")
    done = set()

    def visit(name, path):
        if name in path:
            raise Invalid(f"chain {name} gets back to itself")
        if name not in done:
            for r in chains[name]:
                if rules[r].action == "jump":
                    if rules[r].target not in chains:
                        raise Invalid(f"line {rules[r].line}: no chain {rules[r].target}")
                    visit(rules[r].target, path | {name})
            done.add(name)

    for name in chains:
        visit(name, frozenset())
    return default, chains, rules


class Filter:
    def __init__(self, path):
        self.default, self.chains, self.rules = parse(path)
        self.cache = {}

    def decide(self, mask, arrived=None):
        """(verdict, deciding rule or None) of a packet that satisfies the rules in mask; arrived gets the rules it arrives at."""
        def go(chain):
            for r in self.chains[chain]:
                if arrived is not None:
                    arrived.append(r)
                if mask >> r & 1:
                    rule = self.rules[r]
                    if rule.action == "return":
                        return None
                    if rule.action != "jump":
                        return rule.action, r
                    verdict = go(rule.target)
                    if verdict:
                        return verdict
            return None
        return go("INPUT") or (self.default, None)

    def verdict(self, mask):
        if mask not in self.cache:
            self.cache[mask] = self.decide(mask)[0]
        return self.cache[mask]

    def satisfied(self, kind, value):
        """Mask of the rules whose condition of this kind the value satisfies."""
        mask = 0
        for r, rule in enumerate(self.rules):
            negated, items = rule.conditions.get(kind, (True, ()))
            if any(low <= value <= high for low, high in items) != negated:
                mask |= 1 << r
        return mask

    def no_ports(self):
        return sum(1 << r for r, rule in enumerate(self.rules) if not rule.conditions.keys() & {"sport", "dport"})

    def masks(self):
        """The masks of all packets."""
        def classes(kind):
            starts = {0}
            for rule in self.rules:
                for low, high in rule.conditions.get(kind, (False, ()))[1]:
                    starts |= {low, high + 1}
            limit = 65536 if kind.endswith("port") else 1 << 32
            return {self.satisfied(kind, value) for value in starts if value < limit}

        def meet(a, b):
            return {x & y for x in a for y in b}

        ends = meet(classes("src"), classes("dst"))
        ports = meet(classes("sport"), classes("dport"))
        masks = meet(ends, {self.satisfied("proto", 2) & self.no_ports()})
        return masks | meet(meet(ends, {self.satisfied("proto", p) for p in (0, 1)}), ports)

    def check(self):
        possible = arrived = applied = needed = 0
        for mask in self.masks():
            possible |= mask
            path = []
            self.cache[mask] = verdict = self.decide(mask, path)[0]
            for r in set(path):
                arrived |= 1 << r
                if mask >> r & 1:
                    applied |= 1 << r
                    if not needed >> r & 1 and self.verdict(mask & ~(1 << r)) != verdict:
                        needed |= 1 << r
        for r, rule in enumerate(self.rules):
            status = next(word for word, seen in (("impossible", possible), ("unreachable", arrived), ("shadowed", applied), ("redundant", needed), ("needed", 0))
                          if not seen >> r & 1)
            yield rule, status

    def query(self, line):
        proto, *rest = line.split()
        mask = self.satisfied("proto", PROTOS.index(proto)) & self.satisfied("src", address(rest[0])) & self.satisfied("dst", address(rest[1]))
        if proto == "icmp":
            mask &= self.no_ports()
        else:
            mask &= self.satisfied("sport", int(rest[2])) & self.satisfied("dport", int(rest[3]))
        verdict, rule = self.decide(mask)
        return f"{verdict} {'default' if rule is None else self.rules[rule].line}"


def main(arguments):
    if len(arguments) == 2 and arguments[0] == "check":
        result = list(Filter(arguments[1]).check())
        for rule, status in result:
            print(rule.line, rule.chain, status)
        return int(any(status != "needed" for _, status in result))
    if len(arguments) == 3 and arguments[0] == "query":
        rules = Filter(arguments[1])
        with open(arguments[2], encoding="ascii") as file:
            answers = [rules.query(line) for line in file if line.strip()]
        print("\n".join(answers), end="\n" if answers else "")
        return 0
    raise Invalid("usage: audit check RULES | audit query RULES PACKETS")


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (Invalid, OSError, ValueError) as error:
        print(f"audit: {error}", file=sys.stderr)
        sys.exit(2)
