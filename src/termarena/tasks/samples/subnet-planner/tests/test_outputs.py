import hashlib
import json
import os
import random
import stat
import unittest

import guard

PROGRAM = "/app/subnet-plan"
REQUEST_SHA = "727eb43d01c2e66c5156b43adb01881c4f190fcc64734dcd61571a1895ebcdb2"
FILES = ("plan.csv", "unplaced.csv", "firewall.rules")


# A slow reference that follows the definitions; a range is (first address, prefix length).

def number(text):
    a, b, c, d = map(int, text.split("."))
    return (a << 24) + (b << 16) + (c << 8) + d


def dotted(n):
    return ".".join(str(n >> shift & 255) for shift in (24, 16, 8, 0))


def cidr(text):
    address, length = text.split("/")
    return number(address), int(length)


def span(net):
    return net[0], net[0] + (1 << 32 - net[1]) - 1


def show(net):
    return f"{dotted(net[0])}/{net[1]}"


def maximal(net, used):
    """Maximal CIDR ranges in net that no interval of used touches."""
    low, high = span(net)
    touching = [(a, b) for a, b in used if a <= high and b >= low]
    if not touching:
        return [net]
    if any(a <= low and b >= high for a, b in touching):
        return []
    half = 1 << 31 - net[1]
    return maximal((low, net[1] + 1), touching) + maximal((low + half, net[1] + 1), touching)


def fewest(nets):
    """Fewest CIDR ranges for the same addresses."""
    nets = set(nets)
    while True:
        for first, length in sorted(nets):
            sibling = (first ^ (1 << 32 - length), length)
            if length and sibling in nets:
                nets -= {sibling, (first, length)}
                nets.add((min(first, sibling[0]), length - 1))
                break
        else:
            return sorted(nets)


def reference(request):
    blocks = [cidr(b) for b in request["blocks"]]
    used = []
    for text in request["reserved"]:
        if "-" in text:
            used.append(tuple(number(part) for part in text.split("-")))
        else:
            used.append(span(cidr(text if "/" in text else text + "/32")))
    sites = {s["name"]: s for s in request["sites"]}
    need, placed, unplaced = {}, {}, {}
    for name, site in sites.items():
        hosts = (site["hosts"] * (100 + request["growth_percent"]) + 99) // 100
        length = 30
        while 1 << 32 - length < hosts + 3:
            length -= 1
        need[name] = length
    for name, site in sites.items():
        if "pin" in site:
            pin = cidr(site["pin"])
            low, high = span(pin)
            if pin[1] > need[name]:
                unplaced[name] = "pin-too-small"
            elif not any(span(b)[0] <= low and high <= span(b)[1] for b in blocks):
                unplaced[name] = "pin-outside"
            elif any(a <= high and b >= low for a, b in used):
                unplaced[name] = "pin-taken"
            else:
                placed[name] = pin
                used.append(span(pin))
    for name in sorted((n for n in sites if "pin" not in sites[n]), key=lambda n: (need[n], n)):
        fits = [net for block in blocks for net in maximal(block, used) if net[1] <= need[name]]
        if fits:
            placed[name] = (min(fits, key=lambda net: (-net[1], net[0]))[0], need[name])
            used.append(span(placed[name]))
        else:
            unplaced[name] = "no-space"
    plan = "site,subnet,gateway,first_host,last_host,broadcast,spare\n"
    for name, net in sorted(placed.items(), key=lambda item: item[1]):
        low, high = span(net)
        plan += ",".join([name, show(net), dotted(low + 1), dotted(low + 2), dotted(high - 1), dotted(high), str(high - low - 2 - sites[name]["hosts"])]) + "\n"
    left = "site,prefix,reason\n" + "".join(f"{n},{need[n]},{unplaced[n]}\n" for n in sorted(unplaced))
    triples = {}
    for flow in request["flows"]:
        if flow["to"] in placed:
            for port in flow["ports"]:
                sources = placed if flow["from"] == ["*"] else [n for n in flow["from"] if n in placed]
                triples.setdefault((placed[flow["to"]], flow["proto"], port), set()).update(n for n in sources if n != flow["to"])
    rules = ""
    for (target, proto, port), names in sorted(triples.items(), key=lambda item: item[0]):
        for net in fewest(placed[n] for n in names):
            rules += f"allow {proto} from {show(net)} to {show(target)} port {port}\n"
    return {"plan.csv": plan, "unplaced.csv": left, "firewall.rules": rules + "deny any\n"}, 3 if unplaced else 0


def request(blocks=("10.0.0.0/24",), reserved=(), growth=0, sites=(), flows=()):
    made = [dict(zip(("name", "hosts", "pin"), s)) for s in sites]
    return {"blocks": list(blocks), "reserved": list(reserved), "growth_percent": growth, "sites": made,
            "flows": [dict(zip(("from", "to", "proto", "ports"), f)) for f in flows]}


def random_request(seed):
    rng = random.Random(seed)
    below = lambda n: int(rng.random() * n)
    tops = ["10.64.0.0/18", "10.64.64.0/20", "172.16.5.0/24", "192.168.0.0/21", "9.255.255.128/25", "10.64.80.0/23"]
    blocks = [t for t in tops if below(4)] or tops[:1]
    reserved = []
    for _ in range(below(14)):
        base = span(cidr(tops[below(len(tops))]))
        low = base[0] + below(base[1] - base[0])
        kind = below(3)
        if kind == 0:
            reserved.append(dotted(low))
        elif kind == 1:
            reserved.append(f"{dotted(low)}-{dotted(low + below(700))}")
        else:
            length = 22 + below(10)
            reserved.append(show((low >> 32 - length << 32 - length, length)))
    sites = []
    for i in range(10 + below(30)):
        site = [f"{['s', 'lab', 'x-'][below(3)]}{i}", [1 + below(8), 5 + below(30), below(250) + 1, below(2000) + 1][below(4)]]
        if below(5) == 0:
            low = span(cidr(tops[below(len(tops))]))[0] + below(5000)
            length = 23 + below(7)
            site.append(show((low >> 32 - length << 32 - length, length)))
        sites.append(site)
    names = [s[0] for s in sites]
    flows = []
    for _ in range(12):
        sources = ["*"] if below(5) == 0 else [names[below(len(names))] for _ in range(below(9))]
        flows.append((sources, names[below(len(names))], ["tcp", "udp"][below(2)], [[443, 80, 1000, 9, 53, 53][below(6)] for _ in range(below(4))]))
    return request(blocks, reserved, [0, 7, 10, 25, 110][below(5)], sites, flows)


class Given(unittest.TestCase):
    def setUp(self):
        with open("/app/request.json", "rb") as file:
            self.raw = file.read()

    def test_request_is_unchanged(self):
        self.assertEqual(hashlib.sha256(self.raw).hexdigest(), REQUEST_SHA)

    def test_program_is_an_executable_file(self):
        self.assertTrue(stat.S_ISREG(os.stat(PROGRAM).st_mode) and os.access(PROGRAM, os.X_OK))

    def test_out_folder(self):
        self.assertEqual(hashlib.sha256(self.raw).hexdigest(), REQUEST_SHA)
        for name, want in reference(json.loads(self.raw))[0].items():
            with open(os.path.join("/app/out", name), newline="") as file:
                self.assertEqual(file.read(), want, name)


class Program(unittest.TestCase):
    def setUp(self):
        self.assertTrue(os.access(PROGRAM, os.X_OK), "there is no program " + PROGRAM)
        self.dir = guard.folder(self)

    def run_on(self, text, out="out"):
        path = os.path.join(self.dir, "request with space.json")
        with open(path, "w") as file:
            file.write(text)
        return guard.run([PROGRAM, path, out], self.dir)

    def check(self, asked, literal=None):
        want, code = reference(asked)
        if literal:
            self.assertEqual({**want, **literal}, want, "the reference is wrong")
        status, _, err = self.run_on(json.dumps(asked))
        for name in FILES:
            path = os.path.join(self.dir, "out", name)
            self.assertTrue(os.path.isfile(path), f"{name} missing; {err.decode(errors='replace')[-300:]}")
            with open(path, newline="") as file:
                got = file.read()
            if got != want[name]:
                pairs = zip(got.split("\n") + [None], want[name].split("\n") + [None])
                line, pair = next((n, p) for n, p in enumerate(pairs, 1) if p[0] != p[1])
                self.fail(f"{name}, line {line}: got {pair[0]!r}, expected {pair[1]!r}")
        self.assertEqual(status, code)

    def refuse(self, text):
        status, _, _ = self.run_on(text)
        self.assertEqual(status, 2, text)
        self.assertFalse(os.path.exists(os.path.join(self.dir, "out")), text)

    def test_a_plan_worked_out_by_hand(self):
        self.check(request(["10.0.0.0/24", "10.0.1.0/24"], ["10.0.0.64"], 0, [("b", 50), ("a", 50), ("tiny", 1), ("big", 125)], [(["a", "tiny", "big"], "b", "tcp", [22])]), {
            "plan.csv": "site,subnet,gateway,first_host,last_host,broadcast,spare\n"
                        "a,10.0.0.0/26,10.0.0.1,10.0.0.2,10.0.0.62,10.0.0.63,11\n"
                        "tiny,10.0.0.68/30,10.0.0.69,10.0.0.70,10.0.0.70,10.0.0.71,0\n"
                        "big,10.0.0.128/25,10.0.0.129,10.0.0.130,10.0.0.254,10.0.0.255,0\n"
                        "b,10.0.1.0/26,10.0.1.1,10.0.1.2,10.0.1.62,10.0.1.63,11\n",
            "unplaced.csv": "site,prefix,reason\n",
            "firewall.rules": "allow tcp from 10.0.0.0/26 to 10.0.1.0/26 port 22\nallow tcp from 10.0.0.68/30 to 10.0.1.0/26 port 22\n"
                              "allow tcp from 10.0.0.128/25 to 10.0.1.0/26 port 22\ndeny any\n"})

    def test_random_requests(self):
        for seed in range(300, 306):
            with self.subTest(seed=seed):
                self.check(random_request(seed))

    def test_sizes_at_the_limits_and_no_space_for_some(self):
        limits = [(f"h{n}", n) for n in (1, 2, 5, 6, 13, 14, 29, 30, 61, 62, 253, 254, 1021, 1022)]
        self.check(request(["10.0.0.0/16", "9.0.0.0/26"], ["10.0.16.0/20", "10.0.32.0-10.0.255.255"], 0, [("huge", 4000), *limits, ("a", 25), ("large", 2000), ("b", 25), ("c", 25), ("d", 1)]))

    def test_growth_is_exact(self):
        """At each growth, sites that get a larger subnet with one host more."""
        for growth, edges in ((10, (230, 1110)), (110, (120,)), (1, (2500,)), (29, (100,)), (1000, (23,))):
            sites = [(f"{name}{hosts}", hosts + more) for hosts in edges for name, more in (("a", 0), ("b", -1), ("c", 1))]
            self.check(request(["10.0.0.0/16"], (), growth, sites))

    def test_best_fit_prefers_the_smallest_range_then_the_lowest(self):
        self.check(request(["10.9.0.0/24", "10.1.0.0/26", "10.5.0.0/26"], ["10.9.0.64-10.9.0.127"], 0, [("a", 20), ("b", 20), ("c", 60), ("d", 10), ("e", 1)]))

    def test_adjacent_blocks_are_not_joined(self):
        self.check(request(["10.0.0.0/25", "10.0.0.128/25"], (), 0, [("a", 200), ("b", 100), ("c", 100)], [(["b", "c", "a"], "b", "tcp", [1]), (["b"], "c", "udp", [2])]))

    def test_reserved_forms_overlap_and_reach_outside(self):
        self.check(request(["10.0.0.0/24", "10.0.2.0/24"], ["10.0.0.250-10.0.2.5", "10.0.1.0/24", "10.0.0.0/30", "10.0.0.2", "0.0.0.0-9.255.255.255", "255.255.255.255"], 0,
                           [("a", 100), ("b", 60), ("c", 1), ("d", 29), ("e", 250)]))

    def test_pins(self):
        self.check(request(["10.0.0.0/24", "10.0.1.0/24"], ["10.0.1.200"], 50,
                           [("free", 20), ("ok", 10, "10.0.0.32/27"), ("large", 2, "10.0.1.0/26"), ("same", 10, "10.0.0.32/27"), ("inner", 1, "10.0.0.40/30"),
                            ("small", 50, "10.0.0.192/27"), ("small2", 500, "11.0.0.0/24"), ("out", 5, "10.0.2.0/24"), ("wide", 5, "10.0.0.0/23"), ("res", 5, "10.0.1.192/27"),
                            ("last", 5, "10.0.1.128/26")]))

    def test_same_size_goes_by_byte_order_of_names_and_the_plan_by_numbers(self):
        names = [(n, 5) for n in ("cam-2", "cam-10", "cam1", "cam", "b", "9", "10", "c-a")]
        self.check(request(["10.0.0.0/24", "9.0.0.0/24", "100.0.0.0/24"], (), 0, names + [(f"n{i}", 13) for i in range(44)]))

    def test_rules_merge_over_flows_and_leave_out_the_destination(self):
        self.check(request(["10.0.0.0/24"], (), 0, [("a", 13), ("b", 13), ("c", 13), ("d", 13), ("gone", 900)],
                           [(["a"], "d", "tcp", [80, 9, 443, 80]), (["b", "b"], "d", "tcp", [80]), (["*"], "a", "udp", [53]), (["d"], "d", "tcp", [1]),
                            (["gone"], "a", "tcp", [2]), (["a"], "gone", "tcp", [3]), ([], "b", "tcp", [4]), (["c", "gone", "d"], "d", "udp", [80, 100, 20]), (["a"], "b", "tcp", [])]))

    def test_empty_lists(self):
        self.check(request((), (), 0, [("a", 5), ("b", 5, "10.0.0.0/24")], [(["*"], "a", "tcp", [1])]))

    def test_existing_folder_keeps_other_files(self):
        os.mkdir(os.path.join(self.dir, "out"))
        guard.give(os.path.join(self.dir, "out"))
        for name in ("plan.csv", "keep.txt"):
            with open(os.path.join(self.dir, "out", name), "w") as file:
                file.write("old\n" * 1000)
            guard.give(os.path.join(self.dir, "out", name))
        self.check(request((), (), 0))
        self.assertEqual(sorted(os.listdir(os.path.join(self.dir, "out"))), sorted([*FILES, "keep.txt"]))

    def test_invalid_requests(self):
        for asked in (
            request(["10.0.0.0/24", "10.0.0.128/25"]), request(["10.0.0.0/8", "10.5.0.0/16"]), request(["10.0.0.0/24", "10.0.0.0/24"]), request(["10.0.0.1/24"]),
            request(reserved=["10.0.0.1/24"]), request(reserved=["10.0.0.9-10.0.0.8"]), request(sites=[("a", 1), ("b", 1), ("a", 2)]), request(sites=[("a", 0)]),
            request(sites=[("a", -5)]), request(sites=[("a", 1, "10.0.0.2/30")]), request(sites=[("a", 1)], flows=[(["b"], "a", "tcp", [1])]),
            request(sites=[("a", 1)], flows=[(["a"], "b", "tcp", [1])]),
        ):
            self.refuse(json.dumps(asked))
        self.refuse("{not json")

    def test_wrong_arguments_and_missing_request(self):
        for arguments in (["x"], ["missing.json", "out"], ["a", "b", "c"]):
            self.assertEqual(guard.run([PROGRAM, *arguments], self.dir)[0], 2, arguments)
        self.assertEqual(os.listdir(self.dir), [])


if __name__ == "__main__":
    unittest.main()
