"""Grades /app/resolve with indexes it has not seen."""
import hashlib
import json
import os
import resource
import subprocess
import unittest

import guard
import indexes
import reference

PROGRAM = "/app/resolve"
SECONDS = 10
# Of waiting for a processor: only work is counted, this many times the limit ends what does not work at all.
PATIENCE = 10
LOCK = """bignum==4.3.0
cache==2.0.1
crypto==2.9.0
http==2.2.0
legacy-auth==0.9.1
log[color]==2.1.0
parser==3.2.0
router==1.4.0
store==0.8.10
term==2.0.0
text==1.9.0
web[tls]==2.3.1
"""
DIGEST = "a2b9d43ba90b126403850f75bdc661502b602d71bd899c5f5527d574e6532798"
# Small random problems: those that a greedy choice gets wrong, others, and contradictions.
SEEDS = [0, 14, 36, 47, 53, 55, 62, 67, 70, 78, 91, 99, 103, 104, 148, 154, 12, 93, 111, 358, 782, 871, 11, 43, 52, 85, 136, 139]


class Case(unittest.TestCase):
    def setUp(self):
        os.umask(0o022)
        self.dir = guard.folder(self)
        self.count = 0

    def start(self, index, text, timeout=30, **more):
        """Runs the program; exit status, output (None if there is no file), standard error."""
        self.count += 1
        base = os.path.join(self.dir, str(self.count))
        os.makedirs(base + "/index")
        guard.give(base)
        for name, versions in index.items():
            with open("%s/index/%s.json" % (base, name), "w") as f:
                json.dump({"name": name, "versions": versions}, f)
        with open(base + "/wanted", "w") as f:
            f.write(text)
        done = subprocess.run([PROGRAM, base + "/index", base + "/wanted", base + "/out"], cwd=self.dir, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout, **guard.WHO, **more)
        output = None
        if os.path.exists(base + "/out"):
            with open(base + "/out") as f:
                output = f.read()
        return done.returncode, output, done.stderr.decode("utf-8", "replace")

    def gives(self, index, lines, status, want, timeout=30, **more):
        lines = [lines] if isinstance(lines, str) else lines
        got, output, errors = self.start(index, "".join(line + "\n" for line in lines), timeout, **more)
        expected = "".join(line + "\n" for line in want)
        if (got, output) != (status, expected):
            self.fail("status %d, output %.600r; not %d, %.600r; standard error: %.600r" % (got, output, status, expected, errors))

    def lock(self, index, lines, *want):
        self.gives(index, lines, 0, want)

    def conflict(self, index, lines, *want):
        self.gives(index, lines, 1, ("conflict",) + want)


def limit():
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))


def processor_time():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def plain(*versions):
    return {v: {} for v in versions}


class Delivered(unittest.TestCase):
    def test_index_and_requirements_are_unchanged(self):
        text = hashlib.sha256()
        for name in ["requirements.txt"] + ["index/" + n for n in sorted(os.listdir("/app/index"))]:
            with open("/app/" + name, "rb") as f:
                text.update(b"%s %d\n" % (name.encode(), os.fstat(f.fileno()).st_size) + f.read())
        self.assertEqual(text.hexdigest(), DIGEST)

    def test_lock(self):
        with open("/app/lock.txt") as f:
            self.assertEqual(f.read(), LOCK)


class Versions(Case):
    def test_numbers_are_compared_as_numbers(self):
        self.lock({"a": plain("1.9.0", "1.10.0", "1.2.11")}, "a", "a==1.10.0")
        self.lock({"a": plain("9.0.0", "10.0.0", "2.0.0")}, "a<10.0.0", "a==9.0.0")

    def test_order_of_pre_releases(self):
        order = ["1.0.0-1", "1.0.0-2", "1.0.0-11", "1.0.0-Alpha", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.1.0", "1.0.0-alpha.beta", "1.0.0-beta",
                 "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0-rc.1", "1.0.0"]
        index = {"a": plain(*sorted(order))}
        for low, high in zip(order, order[1:]):
            self.lock(index, "a < %s, >= 1.0.0-1" % high, "a==" + low)

    def test_operators(self):
        index = {"a": plain("1.0.0", "1.1.0", "1.1.5", "1.2.0", "2.0.0")}
        for constraint, version in ((">=1.1.0", "2.0.0"), (">1.2.0", "2.0.0"), ("<=1.1.5", "1.1.5"), ("<1.1.5", "1.1.0"), ("==1.1.0", "1.1.0"),
                                    ("!=2.0.0", "1.2.0"), ("~=1.1.0", "1.1.5"), ("~=1.1.1", "1.1.5"), ("!=2.0.0,!=1.2.0", "1.1.5"),
                                    (">1.0.0,<2.0.0,!=1.2.0", "1.1.5")):
            with self.subTest(constraint):
                self.lock(index, "a" + constraint, "a==" + version)
        self.conflict(index, "a~=1.1.6", "a~=1.1.6")
        self.conflict(index, "a~=1.3.0", "a~=1.3.0")

    def test_compatible_release_and_pre_releases(self):
        index = {"a": plain("1.1.0", "1.1.4-rc.1", "1.2.0-rc.1", "1.1.0-rc.1")}
        self.lock(index, "a~=1.1.0-beta", "a==1.1.4-rc.1")
        self.lock(index, ["a~=1.1.0-rc.1", "a<1.1.0"], "a==1.1.0-rc.1")

    def test_blanks_and_comments(self):
        index = {"a-b": {"1.0.0": {"extras": {"x": [], "y-2": []}}, "2.0.0": {}}, "c": plain("1.0.0", "2.0.0")}
        self.lock(index, ["# a-b < 0.0.0", "", " \t ", "\ta-b [ y-2 ,x ] >= 0.1.0 ,\t< 3.0.0 ", "  # no", "c<2.0.0"], "a-b[x,y-2]==1.0.0", "c==1.0.0")

    def test_nothing_wanted(self):
        self.lock({"a": plain("1.0.0")}, ["# nothing"])

    def test_no_line_end_after_the_last_line(self):
        status, output, _ = self.start({"a": plain("1.0.0", "2.0.0")}, "a<2.0.0")
        self.assertEqual((status, output), (0, "a==1.0.0\n"))


class Choosable(Case):
    def test_pre_releases_are_not_chosen_by_default(self):
        self.lock({"a": plain("1.0.0", "1.1.0-rc.1")}, "a>=1.0.0", "a==1.0.0")
        self.conflict({"a": plain("1.0.0", "1.1.0-rc.1")}, "a>1.0.0", "a>1.0.0")

    def test_a_line_with_a_pre_release_admits_them(self):
        index = {"a": plain("1.0.0", "1.1.0-rc.1", "2.0.0-alpha"), "b": plain("1.0.0", "1.1.0-rc.1")}
        self.lock(index, ["a", "a!=1.0.0-x", "b"], "a==2.0.0-alpha", "b==1.0.0")

    def test_a_requirement_in_the_index_does_not(self):
        index = {"a": plain("1.0.0", "1.1.0-rc.1"), "b": {"2.0.0": {"requires": ["a>=1.1.0-rc.1"]}, "1.0.0": {"requires": ["a>=0.1.0-alpha"]}}}
        self.lock(index, "b", "a==1.0.0", "b==1.0.0")

    def test_packages_with_pre_releases_only(self):
        self.lock({"a": plain("1.0.0-rc.1", "1.0.0-rc.10", "1.0.0-rc.9")}, "a", "a==1.0.0-rc.10")
        self.lock({"a": {"1.0.0-rc.1": {}, "0.9.0": {"yanked": True}}}, "a", "a==1.0.0-rc.1")
        self.lock({"a": plain("1.0.0-rc.1"), "b": {"1.0.0": {"requires": ["a"]}}}, "b", "a==1.0.0-rc.1", "b==1.0.0")

    def test_yanked_versions(self):
        index = {"a": {"2.0.0": {"yanked": True}, "1.0.0": {}, "1.5.0": {"yanked": False}}}
        self.lock(index, "a", "a==1.5.0")
        self.lock(index, "a==2.0.0", "a==2.0.0")
        self.conflict(index, "a>=2.0.0", "a>=2.0.0")
        self.lock(index, ["a>=1.0.0", "a<3.0.0,==2.0.0"], "a==2.0.0")

    def test_pinning_in_the_index_does_not_help_yanked_versions(self):
        index = {"a": {"2.0.0": {"yanked": True}, "1.0.0": {}}, "b": {"2.0.0": {"requires": ["a==2.0.0"]}, "1.0.0": {"requires": ["a"]}}}
        self.lock(index, "b", "a==1.0.0", "b==1.0.0")
        self.lock(index, ["b", "a==2.0.0"], "a==2.0.0", "b==2.0.0")

    def test_yanked_pre_release(self):
        index = {"a": {"2.0.0-rc.1": {"yanked": True}, "2.0.0-rc.0": {}, "1.0.0": {}}}
        self.lock(index, "a>=1.0.0-a", "a==2.0.0-rc.0")
        self.lock(index, "a==2.0.0-rc.1", "a==2.0.0-rc.1")


class Extras(Case):
    INDEX = {"a": {"2.0.0": {"requires": ["b"], "extras": {"x": ["c>=1.0.0"], "y": ["c<2.0.0", "d[z]"]}}, "3.0.0": {"extras": {"x": []}}},
             "b": plain("1.0.0"), "c": plain("1.0.0", "2.0.0"), "d": {"1.0.0": {"extras": {"z": ["e"]}}, "2.0.0": {}}, "e": plain("1.0.0")}

    def test_not_asked_for(self):
        self.lock(self.INDEX, "a<3.0.0", "a==2.0.0", "b==1.0.0")

    def test_asked_for(self):
        self.lock(self.INDEX, "a[x]<3.0.0", "a[x]==2.0.0", "b==1.0.0", "c==2.0.0")
        self.lock(self.INDEX, "a[x]", "a[x]==3.0.0")

    def test_version_must_have_the_extra(self):
        self.lock(self.INDEX, "a[y]", "a[y]==2.0.0", "b==1.0.0", "c==1.0.0", "d[z]==1.0.0", "e==1.0.0")
        self.conflict(self.INDEX, ["a[nothing]"], "a[nothing]")

    def test_several_lines_add_up(self):
        self.lock(self.INDEX, ["a[y]", "a[x,y]", "a"], "a[x,y]==2.0.0", "b==1.0.0", "c==1.0.0", "d[z]==1.0.0", "e==1.0.0")

    def test_activated_after_the_package_was_selected(self):
        index = {"a": {"1.0.0": {"extras": {"x": ["b<2.0.0"]}}, "2.0.0": {"extras": {"x": ["b>=9.0.0"]}}},
                 "b": plain("1.0.0", "2.0.0"), "z": {"1.0.0": {"requires": ["a[x]"]}}}
        self.lock(index, ["a", "z"], "a[x]==1.0.0", "b==1.0.0", "z==1.0.0")

    def test_extras_of_versions_not_in_the_lock_do_not_count(self):
        index = {"a": {"2.0.0": {"requires": ["b[x]"], "conflicts": ["b"]}, "1.0.0": {"requires": ["b"]}}, "b": {"1.0.0": {"extras": {"x": ["c"]}}},
                 "c": plain("1.0.0")}
        self.lock(index, "a", "a==1.0.0", "b==1.0.0")


class Validity(Case):
    def test_conflicts_entry(self):
        index = {"a": {"2.0.0": {"conflicts": ["b>=2.0.0"]}, "1.0.0": {}}, "b": plain("1.0.0", "2.0.0")}
        self.lock(index, "a", "a==2.0.0")
        self.lock(index, ["b", "a"], "a==2.0.0", "b==1.0.0")
        self.lock(index, ["b>=2.0.0", "a"], "a==1.0.0", "b==2.0.0")

    def test_conflicts_entry_without_constraints(self):
        index = {"a": {"2.0.0": {"conflicts": ["b", "gone"]}, "1.0.0": {}}, "b": plain("1.0.0", "2.0.0")}
        self.lock(index, ["a"], "a==2.0.0")
        self.lock(index, ["a", "b"], "a==1.0.0", "b==2.0.0")

    def test_conflicts_entry_of_the_later_package(self):
        index = {"a": plain("1.0.0", "2.0.0"), "b": {"1.0.0": {"conflicts": ["a>1.0.0"]}}}
        self.lock(index, ["a", "b"], "a==1.0.0", "b==1.0.0")

    def test_circles(self):
        index = {"a": {"1.0.0": {"requires": ["b>=1.0.0"]}, "2.0.0": {"requires": ["b>=2.0.0"]}},
                 "b": {"1.0.0": {"requires": ["a"]}, "2.0.0": {"requires": ["a<2.0.0"]}}}
        self.lock(index, "b", "a==1.0.0", "b==2.0.0")
        self.lock(index, "a", "a==1.0.0", "b==2.0.0")

    def test_nothing_superfluous(self):
        index = {"a": {"2.0.0": {"requires": ["b", "zz"]}, "1.0.0": {}}, "b": {"1.0.0": {"requires": ["c"]}}, "c": {"1.0.0": {"requires": ["b"]}},
                 "zz": {"1.0.0": {"requires": ["a<2.0.0"]}}}
        self.lock(index, "a", "a==1.0.0")

    def test_package_that_is_not_in_the_index(self):
        index = {"a": {"2.0.0": {"requires": ["ghost"]}, "1.0.0": {}}}
        self.lock(index, "a", "a==1.0.0")
        self.conflict(index, ["a", "ghost>=1.0.0"], "ghost>=1.0.0")


class Preference(Case):
    def test_going_back(self):
        index = {"a": {"2.0.0": {"requires": ["c<2.0.0"]}, "1.0.0": {"requires": ["c"]}}, "b": {"1.0.0": {"requires": ["c>=2.0.0"]}},
                 "c": plain("1.0.0", "2.0.0")}
        self.lock(index, ["a", "b"], "a==1.0.0", "b==1.0.0", "c==2.0.0")

    def test_the_first_name_wins(self):
        index = {"a": {"2.0.0": {"requires": ["b<2.0.0"]}, "1.0.0": {}}, "b": plain("1.0.0", "2.0.0", "3.0.0")}
        self.lock(index, ["b", "a"], "a==2.0.0", "b==1.0.0")

    def test_going_back_two_steps(self):
        index = {"a": {"3.0.0": {"requires": ["d<=1.0.0"]}, "2.0.0": {"requires": ["d<=2.0.0"]}, "1.0.0": {}},
                 "b": {"2.0.0": {"requires": ["d"]}, "1.0.0": {}}, "c": {"1.0.0": {"requires": ["e"]}}, "d": plain("1.0.0", "2.0.0", "3.0.0"),
                 "e": {"1.0.0": {"requires": ["d>=2.0.0"]}}}
        self.lock(index, ["a", "b", "c"], "a==2.0.0", "b==2.0.0", "c==1.0.0", "d==2.0.0", "e==1.0.0")

    def test_order_follows_what_is_required_so_far(self):
        # a is needed by d only, so b is selected before a, although only one version of d is possible.
        index = {"a": plain("1.0.0", "2.0.0"), "b": {"1.0.0": {}, "2.0.0": {"conflicts": ["a>=2.0.0"]}}, "d": {"1.0.0": {"requires": ["a"]}}}
        self.lock(index, ["b", "d"], "a==1.0.0", "b==2.0.0", "d==1.0.0")
        self.lock(index, ["a", "b", "d"], "a==2.0.0", "b==1.0.0", "d==1.0.0")

    def test_new_packages_come_before_waiting_ones(self):
        # b brings in a, which is then selected before c.
        index = {"a": {"1.0.0": {}, "2.0.0": {"conflicts": ["c>=2.0.0"]}}, "b": {"1.0.0": {"requires": ["a"]}}, "c": plain("1.0.0", "2.0.0")}
        self.lock(index, ["b", "c"], "a==2.0.0", "b==1.0.0", "c==1.0.0")

    def test_dropping_a_package_is_not_preferred(self):
        index = {"a": {"1.0.0": {}, "2.0.0": {"requires": ["b", "c", "d"]}}, "b": plain("1.0.0"), "c": plain("1.0.0"), "d": plain("1.0.0")}
        self.lock(index, "a", "a==2.0.0", "b==1.0.0", "c==1.0.0", "d==1.0.0")

    def test_digits_and_hyphens_in_names(self):
        index = {"a": {"1.0.0": {}, "2.0.0": {"conflicts": ["a-b>1.0.0"]}}, "a-b": {"1.0.0": {}, "2.0.0": {"conflicts": ["a1>1.0.0"]}}, "a1": plain("1.0.0", "2.0.0")}
        self.lock(index, ["a1", "a", "a-b"], "a==2.0.0", "a-b==1.0.0", "a1==2.0.0")
        self.lock(index, ["a1", "a-b"], "a-b==2.0.0", "a1==1.0.0")


class Contradictions(Case):
    def test_only_the_lines_to_blame(self):
        index = {"a": plain("1.0.0", "2.0.0"), "b": {"1.0.0": {"requires": ["a<2.0.0"]}}, "c": plain("1.0.0")}
        self.conflict(index, ["c", "a >= 2.0.0", "# why", "  b\t", "c==1.0.0"], "a >= 2.0.0", "b")

    def test_earlier_lines_are_dropped_first(self):
        index = {"a": plain("1.0.0", "2.0.0", "3.0.0")}
        self.conflict(index, ["a<2.0.0", "a>=3.0.0", "a==2.0.0"], "a>=3.0.0", "a==2.0.0")
        self.conflict(index, ["a>3.0.0", "a<2.0.0", "a>=2.0.0"], "a<2.0.0", "a>=2.0.0")
        self.conflict(index, ["a<2.0.0", "a>=2.0.0", "a>=2.0.0"], "a<2.0.0", "a>=2.0.0")

    def test_three_lines(self):
        index = {"a": {"1.0.0": {"requires": ["x!=1.0.0"]}}, "b": {"1.0.0": {"requires": ["x!=2.0.0"]}}, "c": {"1.0.0": {"requires": ["x!=3.0.0"]}},
                 "x": plain("1.0.0", "2.0.0", "3.0.0")}
        self.conflict(index, ["a", "b", "c"], "a", "b", "c")
        self.lock(index, ["a", "c"], "a==1.0.0", "c==1.0.0", "x==2.0.0")

    def test_lines_left_decide_about_pre_releases(self):
        # Without the second line there is no version above 1.0.0 to choose, so the first line alone is to blame.
        index = {"a": plain("1.0.0", "2.0.0-rc.1")}
        self.conflict(index, ["a>1.0.0", "a<2.0.0-rc.1"], "a>1.0.0")
        self.conflict(index, ["a<2.0.0-rc.1", "a>1.0.0"], "a>1.0.0")

    def test_lines_left_decide_about_yanked_versions(self):
        index = {"a": {"1.0.0": {"yanked": True}}, "b": {"1.0.0": {"requires": ["a"]}}, "c": {"1.0.0": {"conflicts": ["a"]}}}
        self.lock(index, ["b", "a==1.0.0"], "a==1.0.0", "b==1.0.0")
        self.conflict(index, ["a==1.0.0", "c", "b"], "b")


class BadLines(Case):
    def test_syntax_errors(self):
        for text in ("a 1.0.0", "a>>1.0.0", "a=1.0.0", "a>=1.0", "a>=1", "a>=1.0.0.0", "a>=01.0.0", "a>=1.0.0-", "a>=1.0.0-rc..1", "a>=1.0.0-rc.01",
                     "A", "a_b", "-a", "a-", "a--b", "a b", ">=1.0.0", "a[x", "a]", "a[x,]", "a[X]", "a[x]y", "a>=1.0.0,", "a>=1.0.0 <2.0.0", "a,>=1.0.0",
                     "a>=*", "a^1.0.0", "a===1.0.0", "a>=1.0.0[x]", "a # note"):
            with self.subTest(text):
                status, output, errors = self.start({"a": plain("1.0.0")}, "a\n\n%s\na>>1\n" % text)
                self.assertEqual((status, output), (2, None))
                self.assertRegex(errors, r"line 3\b")

    def test_old_output_stays(self):
        with open(self.dir + "/wanted", "w") as f:
            f.write("# note\n!\n")
        with open(self.dir + "/out", "w") as f:
            f.write("old\n")
        guard.give(self.dir + "/out")
        os.mkdir(self.dir + "/index")
        done = subprocess.run([PROGRAM, self.dir + "/index", self.dir + "/wanted", self.dir + "/out"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=30,
                              **guard.WHO)
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr.decode(), r"line 2\b")
        with open(self.dir + "/out") as f:
            self.assertEqual(f.read(), "old\n")


class Large(Case):
    def large(self, make):
        """The work counts, not the clock: processor time of the program and of all that it starts."""
        index, lines, status, want = make()
        before = processor_time()
        try:
            self.gives(index, lines, status, want, timeout=SECONDS * PATIENCE, preexec_fn=limit)
        except subprocess.TimeoutExpired:
            self.fail("takes too long")
        self.assertLess(processor_time() - before, SECONDS)

    def test_late_conflict(self):
        self.large(indexes.late_conflict)

    def test_many_groups(self):
        self.large(indexes.many_groups)

    def test_staircase(self):
        self.large(indexes.staircase)

    def test_contradiction_of_three_lines_among_sixty(self):
        self.large(indexes.three_in_a_crowd)


class Random(Case):
    def test_small_random_problems(self):
        for seed in SEEDS:
            with self.subTest(seed=seed):
                index, lines = indexes.small(seed)
                self.gives(index, lines, *reference.resolve(index, lines))


if __name__ == "__main__":
    unittest.main()
