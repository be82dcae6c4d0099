import hashlib
import os
import unittest

import guard
from generate import Maker
from reference import Rules, report

PROGRAM = "/app/audit"
SHA = {
    "/app/rules.fw": "9448c6fccca065512b944c5dfc3d0551245bfa5336f669c23de07a01266b521d",
    "/app/packets.txt": "946c52324cb21b35c8af24f8606e5ea13d5919a1c864b54e324d05c35b719f4e",
    "/app/LANGUAGE.md": "732f2b525bc7007b15884e297ed562a03048044a14d92926978e4c29cf5a4975",
}


def read(path):
    with open(path, newline="") as file:
        return file.read()


def hidden(name):
    return read(os.path.join(guard.HERE, "expected", name))


def is_rule(line):
    return line.split("#")[0].split()[:1] in (["accept"], ["drop"], ["jump"], ["return"])


def setUpModule():
    if not os.access(PROGRAM, os.X_OK):
        raise AssertionError(f"no program {PROGRAM}")
    for name in ("report.txt", "answers.txt"):
        if read(f"/app/{name}") != hidden(name):
            raise AssertionError(f"/app/{name} is wrong: the rest is not looked at")


class OwnFile(unittest.TestCase):
    maxDiff = None

    def test_inputs_are_unchanged(self):
        for path, digest in SHA.items():
            with open(path, "rb") as file:
                self.assertEqual(hashlib.sha256(file.read()).hexdigest(), digest, path)

    def kept(self):
        """Which rules of the original clean.fw still has, as a bit mask."""
        have = read("/app/clean.fw").split("\n")
        rule, bits = -1, 0
        for line in hidden("rules.fw").split("\n"):
            rule += is_rule(line)
            if have and have[0] == line:
                have.pop(0)
                bits |= is_rule(line) << max(rule, 0)
            else:
                self.assertTrue(is_rule(line), f"clean.fw lacks or changes: {line}")
        self.assertEqual(have, [], "clean.fw has lines that are not from rules.fw")
        return bits

    def test_clean_only_lacks_rules(self):
        self.kept()

    def test_clean_gives_the_same_verdicts(self):
        kept, rules = self.kept(), Rules(hidden("rules.fw"))
        for bits in rules.all_bits():
            self.assertEqual(rules.fate(bits & kept)[0], rules.fate(bits)[0])

    def test_clean_has_only_needed_rules(self):
        self.assertEqual([line for line in report(read("/app/clean.fw")).splitlines() if not line.endswith(" needed")], [])


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.dir = guard.folder(self)

    def put(self, name, text):
        with open(os.path.join(self.dir, name), "w", newline="") as file:
            file.write(text)
        return name

    def check(self, text, want=None):
        want = want if want is not None else report(text)
        status, out, err = guard.run([PROGRAM, "check", self.put("r u l e s.fw", text)], self.dir, timeout=10)
        self.assertIsNotNone(status, "more than 10 seconds")
        got = out.decode(errors="replace")
        if got != want:
            wrong = [pair for pair in zip(got.splitlines(), want.splitlines()) if pair[0] != pair[1]]
            self.fail(f"(got, expected): {wrong[:3] or (got[-200:], want[-200:])}; {err.decode(errors='replace')[-300:]}")
        self.assertEqual(status, int(any(not line.endswith(" needed") for line in want.splitlines())))

    def rules(self, *lines, statuses, default="drop"):
        """Rules of INPUT and further chains, with the status that each must have, worked out by hand."""
        text = f"default {default}\nchain INPUT\n" + "\n".join(lines) + "\n"
        numbers = [(n, line) for n, line in enumerate(text.split("\n"), 1) if is_rule(line)]
        chain, want, left = "", "", statuses.split()
        for n, line in enumerate(text.split("\n"), 1):
            if line.startswith("chain"):
                chain = line.split()[1]
            elif is_rule(line):
                want += f"{n} {chain} {left.pop(0)}\n"
        self.assertEqual((left, len(numbers)), ([], len(statuses.split())))
        self.assertEqual(report(text), want, "the reference is wrong")
        self.check(text, want)


class Check(Case):
    def test_shadowed_by_one_rule(self):
        self.rules("accept src 10.0.0.0/8", "drop src 10.2.0.0/16 proto tcp", statuses="needed shadowed")

    def test_shadowed_by_several_rules_together(self):
        self.rules("accept src 10.0.0.0/9 dport 0-1023", "accept src 10.128.0.0/9 dport 0-500", "accept src 10.128.0.0/9 dport 501-1023",
                   "drop src 10.0.0.0/8 dport 1-1023", "accept src 10.0.0.0/8 dport 1-1024", statuses="needed needed needed shadowed needed")

    def test_redundant_because_of_a_later_rule(self):
        self.rules("accept src 10.1.0.0/16", "accept dport 80", "accept src 10.0.0.0/8", statuses="redundant needed needed")

    def test_redundant_because_of_the_default(self):
        self.rules("drop src 10.1.1.1", "accept src 10.0.0.0/8", "drop src 10.0.0.0/7", "drop", statuses="needed needed redundant redundant")

    def test_two_rules_that_stand_in_for_each_other(self):
        self.rules("accept src 10.0.0.0/8", "accept src 10.0.0.0/8 proto !tcp", "accept src 10.0.0.0/8 proto tcp,udp,icmp", statuses="redundant shadowed shadowed")

    def test_unreachable_after_a_rule_for_everything(self):
        self.rules("accept proto tcp", "drop proto udp,icmp", "accept src 1.2.3.4", "return", statuses="needed needed unreachable unreachable")

    def test_unreachable_chains(self):
        self.rules("drop src 10.0.0.0/8", "jump A src 10.3.0.0/16", "accept", "chain A", "accept", "drop src 11.0.0.0/8", "chain B", "accept", "jump A", "chain C",
                   statuses="needed shadowed needed unreachable unreachable unreachable unreachable")

    def test_impossible_conditions(self):
        self.rules("accept proto icmp dport 80", "accept proto icmp sport !80", "drop src !0.0.0.0/0", "drop dst !0.0.0.0/1,128.0.0.0/1 proto tcp", "accept dport !0-65535",
                   "accept proto !tcp,udp dport 5", "accept proto !tcp,udp,icmp", "accept sport !0-99,100-65535 dport 3", "accept proto tcp,icmp dport 80", "chain X",
                   "drop src !0.0.0.0/0", statuses="impossible " * 8 + "needed impossible")

    def test_icmp_is_not_covered_by_ports(self):
        self.rules("accept dport 0-65535", "accept proto icmp src 10.0.0.0/8", "drop proto tcp,udp", "drop", statuses="needed needed shadowed redundant")

    def test_negated_lists_are_negated_as_a_whole(self):
        self.rules("drop src !10.0.0.0/8,192.0.2.0/24", "accept src 10.0.0.0/8", "drop src !192.0.2.0/24", "accept dst !1.1.1.1,2.2.2.2 src 192.0.2.0/24",
                   statuses="redundant needed shadowed needed")

    def test_return_and_what_follows_the_jump(self):
        self.rules("jump A", "accept proto tcp", "chain A", "return src 10.0.0.0/8", "drop dport 22", "return", "drop", statuses="needed needed needed needed needed unreachable")

    def test_jump_to_a_chain_without_effect(self):
        self.rules("jump A", "jump EMPTY dport 1", "accept src 1.1.1.1", "chain A", "return src 10.0.0.0/8", "jump EMPTY", "chain EMPTY",
                   statuses="redundant redundant needed redundant redundant")

    def test_chain_with_several_callers(self):
        self.rules("jump A src 10.0.0.0/8", "jump A dst 10.0.0.0/8", "accept dport 1", "chain A", "drop src 10.1.0.0/16 dst 11.0.0.0/8", "drop dst 10.1.0.0/16 src 12.0.0.0/8",
                   "accept src 13.0.0.0/8 dst 13.0.0.0/8", "jump A2 dport 1", "chain A2", "drop src 14.0.0.0/8",
                   statuses="needed needed needed needed needed shadowed needed needed")

    def test_same_chain_twice_for_the_same_packets(self):
        self.rules("jump A", "drop src 10.0.0.0/8", "jump A", "accept", "chain A", "drop dport 7", statuses="redundant needed redundant needed needed")

    def test_return_in_input_means_default(self):
        self.rules("return src 10.0.0.0/8", "drop proto udp", "accept src 10.0.0.0/8", default="accept", statuses="needed needed shadowed")

    def test_edges_of_addresses_and_ports(self):
        self.rules("accept dport 0-65534 src 0.0.0.0/1 proto tcp", "accept src 0.0.0.0 dport 65535 proto tcp", "accept src 255.255.255.255 dport 0 proto tcp",
                   "accept dport 65535 proto tcp src 0.0.0.0/32", "accept sport 65535 dport 65535 proto tcp src 127.255.255.255", "accept src 127.255.255.255 proto tcp",
                   statuses="needed redundant needed shadowed redundant needed")

    def test_no_rules_at_all(self):
        self.check("chain INPUT\ndefault accept # yes\nchain X\n", "")

    def test_all_needed_gives_status_0(self):
        self.rules("accept proto tcp dport 22 src 10.0.0.0/8", "accept proto tcp dport 80", statuses="needed needed")

    def test_small_random_files(self):
        for seed in range(1000, 1030, 3):
            with self.subTest(seed=seed):
                self.check(Maker(seed, seed % 2 == 0).file(3 + seed % 14, seed % 4, 1 + seed % 3))

    def test_large_random_files(self):
        for seed, count, chains, width in ((2002, 80, 6, 1), (2004, 80, 4, 8), (2005, 70, 9, 2)):
            with self.subTest(seed=seed):
                self.check(Maker(seed, True).file(count, chains, width))


class Query(Case):
    def test_random_packets(self):
        for seed in range(3000, 3004):
            with self.subTest(seed=seed):
                maker = Maker(seed, seed % 2 == 0)
                text = maker.file(25, 4, 3)
                packets = [maker.packet() for _ in range(150)]
                rules = Rules(text)
                self.put("packets", "".join(p + "\n" for p in packets))
                status, out, err = guard.run([PROGRAM, "query", self.put("rules", text), "packets"], self.dir)
                self.assertEqual(status, 0, err)
                got = out.decode().splitlines()
                self.assertEqual(len(got), len(packets))
                for packet, answer in zip(packets, got):
                    self.assertEqual(answer, rules.query(packet), packet)

    def test_no_packets(self):
        self.put("packets", "")
        status, out, _ = guard.run([PROGRAM, "query", self.put("rules", "default drop\nchain INPUT\n"), "packets"], self.dir)
        self.assertEqual((status, out), (0, b""))


class Errors(Case):
    GOOD = "default drop\nchain INPUT\naccept\nchain A\ndrop\n"
    PACKET = "tcp 1.1.1.1 2.2.2.2 3 4"
    ANSWERS = {"check": [1, report(GOOD)], "query": [0, Rules(GOOD).query(PACKET) + "\n"]}

    def refuse(self, *texts):
        """All are refused, by the one command or by the other; the good file among them is not."""
        self.put("packets", f"{self.PACKET}\n")
        texts = (texts[0], self.GOOD, self.GOOD, *texts[1:])
        calls = [["query", self.put(f"{n}.fw", text), "packets"] if n % 2 else ["check", self.put(f"{n}.fw", text)] for n, text in enumerate(texts)]
        for (words, *got), text in zip(self.called(calls), texts):
            if text == self.GOOD:
                self.assertEqual(got[:2], self.ANSWERS[words[0]], (words, text))
            else:
                self.assertEqual(got, [2, "", True], (words, text))

    def called(self, calls):
        """(words, status, output, is there a message) of each call, all made from one shell."""
        lines = [f"{PROGRAM} {' '.join(words)} >{n}.out 2>{n}.err\necho $?\n" for n, words in enumerate(calls)]
        _, told, _ = guard.run(["/bin/sh", self.put("calls", "".join(lines))], self.dir, timeout=60)
        statuses = told.split()
        self.assertEqual(len(statuses), len(calls), "not all calls ended in time")
        for n, words in enumerate(calls):
            yield words, int(statuses[n]), read(os.path.join(self.dir, f"{n}.out")), bool(read(os.path.join(self.dir, f"{n}.err")).strip())

    def test_the_good_file_is_good(self):
        self.check(self.GOOD)

    def test_bad_rules(self):
        rules = ("reject", "accept tcp", "accept proto", "accept proto sctp", "accept proto TCP", "accept proto tcp,", "accept proto tcp, udp", "accept proto !", "accept src",
                 "accept src 10.0.0.1/8", "accept src 10.0.0.0/33", "accept src 10.0.0/8", "accept src 10.0.0.256", "accept src 10.0.0.0/", "accept src host.example",
                 "accept src 1.1.1.1,,2.2.2.2", "accept src !!1.1.1.1", "accept src 1.1.1.1,!2.2.2.2", "accept dport 65536", "accept dport 9-8", "accept dport 1-", "accept dport -1",
                 "accept dport http", "accept dport 1-2-3", "accept sport 1 sport 2", "accept src 1.1.1.1 src 1.1.1.1", "jump", "jump B", "drop A", "return A", "accept accept")
        self.refuse(*(self.GOOD + rule + "\n" for rule in rules))

    def test_bad_structure(self):
        self.refuse("", "default drop\n", "chain INPUT\naccept\n", self.GOOD + "default drop\n", self.GOOD + "default accept\n", self.GOOD + "chain A\n", self.GOOD + "chain INPUT\n",
                    "default drop\naccept\nchain INPUT\n", "default drop\nchain A\naccept\n", "default reject\nchain INPUT\n", "default\nchain INPUT\n", self.GOOD + "chain\n",
                    self.GOOD + "chain B C\n", self.GOOD + "chain B.C\n", "default drop\nchain input\naccept\n")

    def test_loops(self):
        called = self.GOOD.replace("accept\n", "accept\njump A\n")
        self.refuse(called + "jump INPUT\n", self.GOOD + "jump A\n", self.GOOD + "jump B\nchain B\njump A\n",
                    self.GOOD + "chain C\njump D\nchain D\njump C proto tcp dport 5\n", called + "jump B src 1.1.1.1\nchain B\njump INPUT\n")

    def test_wrong_command_line_and_missing_files(self):
        self.put("rules", self.GOOD)
        calls = [[], ["check"], ["check", "missing"], ["query", "rules"], ["query", "rules", "missing"], ["query", "missing", "rules"], ["explain", "rules"], ["check", "rules", "rules"]]
        calls.insert(3, ["check", "rules"])
        for words, *got in self.called(calls):
            if words == ["check", "rules"]:
                self.assertEqual(got[:2], self.ANSWERS["check"], words)
            else:
                self.assertEqual(got, [2, "", True], words)


if __name__ == "__main__":
    unittest.main()
