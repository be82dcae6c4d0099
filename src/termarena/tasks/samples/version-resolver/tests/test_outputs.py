"""Grades /app/resolve with indexes it has not seen."""
import hashlib
import json
import os
import re
import resource
import subprocess
import unittest

import answers
import guard
import indexes

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


def renamed(requirement, prefix):
    """A requirement, or a line, about a package with this before its name."""
    return requirement if requirement.lstrip(" \t").startswith("#") else re.sub(r"^([ \t]*)(?=[a-z])", r"\g<1>" + prefix, requirement)


class Problem:
    """One of those that have a lock, with names of its own for its packages: so that many can be resolved in one run."""

    def __init__(self, number, index, lines):
        self.prefix, self.batch = "p%03d-" % number, None
        self.lines = [renamed(line, self.prefix) for line in lines]
        self.index = {self.prefix + name: {v: self.own(entry) for v, entry in versions.items()} for name, versions in index.items()}

    def own(self, entry):
        made = dict(entry)
        for key in {"requires", "conflicts"} & entry.keys():
            made[key] = [renamed(text, self.prefix) for text in entry[key]]
        if "extras" in entry:
            made["extras"] = {extra: [renamed(text, self.prefix) for text in texts] for extra, texts in entry["extras"].items()}
        return made


class Batch:
    """Problems for one run, no more than fit into the promised size."""

    def __init__(self):
        self.index, self.lines, self.answer = {}, [], None

    def takes(self, problem):
        if len(self.index) + len(problem.index) > 150 or len(self.lines) + len(problem.lines) > 60:
            return False
        self.index.update(problem.index)
        self.lines += problem.lines
        problem.batch = self
        return True

    def resolved(self, case):
        """Status, output and standard error; the last of the lines has no line end."""
        if self.answer is None:
            try:
                self.answer = case.start(self.index, "\n".join(self.lines))
            except (OSError, subprocess.TimeoutExpired) as error:
                self.answer = None, "", str(error)
        return self.answer


class Case(unittest.TestCase):
    def setUp(self):
        self.assertTrue(os.access(PROGRAM, os.X_OK), "there is no program " + PROGRAM)
        os.umask(0o022)
        self.dir = guard.folder(self)
        self.count = 0

    def start(self, index, text, timeout=30, out=None, **more):
        """Runs the program; exit status, output (None if there is no file), standard error. Output that is there before: out."""
        self.count += 1
        base = os.path.join(self.dir, str(self.count))
        os.makedirs(base + "/index")
        guard.give(base)
        for name, versions in index.items():
            with open("%s/index/%s.json" % (base, name), "w") as f:
                json.dump({"name": name, "versions": versions}, f)
        with open(base + "/wanted", "w") as f:
            f.write(text)
        if out is not None:
            with open(base + "/out", "w") as f:
                f.write(out)
            guard.give(base + "/out")
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

    def conflict(self, index, lines, *want):
        self.gives(index, lines, 1, ("conflict",) + want)


class Locks(Case):
    """Tests of problems that have a lock, and of nothing else."""

    problems, batches = {}, []
    is_gathering = False

    @classmethod
    def gather(cls):
        """Lets the tests of the class say which problems they have, before any of them looks at what came out."""
        for name in unittest.defaultTestLoader.getTestCaseNames(cls):
            case = cls(name)
            case.is_gathering = True
            getattr(case, name)()

    def setUp(self):
        super().setUp()
        self.mine = iter(self.problems[self.id()])

    def lock(self, index, lines, *want):
        if self.is_gathering:
            self.gathered(index, [lines] if isinstance(lines, str) else lines)
            return
        problem = next(self.mine)
        status, output, errors = problem.batch.resolved(self)
        self.assertEqual(status, 0, "of many problems together; output %.300r, standard error %.600r" % (output, errors))
        got = [line[len(problem.prefix):] for line in output.splitlines() if line.startswith(problem.prefix)]
        self.assertEqual(got, list(want), problem.lines)

    def nothing_fits(self, index, requirement):
        """A version that asks for something that cannot be had is passed over."""
        self.lock({**index, "zz": {"1.0.0": {}, "2.0.0": {"requires": [requirement]}}}, "zz", "zz==1.0.0")

    def gathered(self, index, lines):
        problem = Problem(sum(map(len, self.problems.values())), index, lines)
        self.problems.setdefault(self.id(), []).append(problem)
        if not self.batches or not self.batches[-1].takes(problem):
            self.batches.append(Batch())
            self.batches[-1].takes(problem)


def setUpModule():
    for cls in Locks.__subclasses__():
        cls.gather()


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


class Versions(Locks):
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
        self.nothing_fits(index, "a~=1.1.6")
        self.nothing_fits(index, "a~=1.3.0")

    def test_compatible_release_and_pre_releases(self):
        index = {"a": plain("1.1.0", "1.1.4-rc.1", "1.2.0-rc.1", "1.1.0-rc.1")}
        self.lock(index, "a~=1.1.0-beta", "a==1.1.4-rc.1")
        self.lock(index, ["a~=1.1.0-rc.1", "a<1.1.0"], "a==1.1.0-rc.1")

    def test_blanks_and_comments(self):
        index = {"a-b": {"1.0.0": {"extras": {"x": [], "y-2": []}}, "2.0.0": {}}, "c": plain("1.0.0", "2.0.0")}
        self.lock(index, ["# a-b < 0.0.0", "", " \t ", "\ta-b [ y-2 ,x ] >= 0.1.0 ,\t< 3.0.0 ", "  # no", "c<2.0.0"], "a-b[x,y-2]==1.0.0", "c==1.0.0")


class Choosable(Locks):
    def test_pre_releases_are_not_chosen_by_default(self):
        self.lock({"a": plain("1.0.0", "1.1.0-rc.1")}, "a>=1.0.0", "a==1.0.0")
        self.nothing_fits({"a": plain("1.0.0", "1.1.0-rc.1")}, "a>1.0.0")

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
        self.nothing_fits(index, "a>=2.0.0")
        self.lock(index, ["a>=1.0.0", "a<3.0.0,==2.0.0"], "a==2.0.0")

    def test_pinning_in_the_index_does_not_help_yanked_versions(self):
        index = {"a": {"2.0.0": {"yanked": True}, "1.0.0": {}}, "b": {"2.0.0": {"requires": ["a==2.0.0"]}, "1.0.0": {"requires": ["a"]}}}
        self.lock(index, "b", "a==1.0.0", "b==1.0.0")
        self.lock(index, ["b", "a==2.0.0"], "a==2.0.0", "b==2.0.0")

    def test_yanked_pre_release(self):
        index = {"a": {"2.0.0-rc.1": {"yanked": True}, "2.0.0-rc.0": {}, "1.0.0": {}}}
        self.lock(index, "a>=1.0.0-a", "a==2.0.0-rc.0")
        self.lock(index, "a==2.0.0-rc.1", "a==2.0.0-rc.1")


class Extras(Locks):
    INDEX = {"a": {"2.0.0": {"requires": ["b"], "extras": {"x": ["c>=1.0.0"], "y": ["c<2.0.0", "d[z]"]}}, "3.0.0": {"extras": {"x": []}}},
             "b": plain("1.0.0"), "c": plain("1.0.0", "2.0.0"), "d": {"1.0.0": {"extras": {"z": ["e"]}}, "2.0.0": {}}, "e": plain("1.0.0")}

    def test_not_asked_for(self):
        self.lock(self.INDEX, "a<3.0.0", "a==2.0.0", "b==1.0.0")

    def test_asked_for(self):
        self.lock(self.INDEX, "a[x]<3.0.0", "a[x]==2.0.0", "b==1.0.0", "c==2.0.0")
        self.lock(self.INDEX, "a[x]", "a[x]==3.0.0")

    def test_version_must_have_the_extra(self):
        self.lock(self.INDEX, "a[y]", "a[y]==2.0.0", "b==1.0.0", "c==1.0.0", "d[z]==1.0.0", "e==1.0.0")
        self.nothing_fits(self.INDEX, "a[nothing]")

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


class Validity(Locks):
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


class Preference(Locks):
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

    def test_version_that_all_lines_leave(self):
        index = {"a": {"1.0.0": {"requires": ["x!=1.0.0"]}}, "c": {"1.0.0": {"requires": ["x!=3.0.0"]}}, "x": plain("1.0.0", "2.0.0", "3.0.0")}
        self.lock(index, ["a", "c"], "a==1.0.0", "c==1.0.0", "x==2.0.0")

    def test_yanked_version_that_a_line_names(self):
        index = {"a": {"1.0.0": {"yanked": True}}, "b": {"1.0.0": {"requires": ["a"]}}}
        self.lock(index, ["b", "a==1.0.0"], "a==1.0.0", "b==1.0.0")


class Contradictions(Case):
    def test_package_that_is_not_in_the_index(self):
        self.conflict({"a": plain("1.0.0")}, ["a", "ghost>=1.0.0"], "ghost>=1.0.0")

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

    def test_lines_left_decide_about_pre_releases(self):
        # Without the second line there is no version above 1.0.0 to choose, so the first line alone is to blame.
        index = {"a": plain("1.0.0", "2.0.0-rc.1")}
        self.conflict(index, ["a>1.0.0", "a<2.0.0-rc.1"], "a>1.0.0")
        self.conflict(index, ["a<2.0.0-rc.1", "a>1.0.0"], "a>1.0.0")

    def test_lines_left_decide_about_yanked_versions(self):
        index = {"a": {"1.0.0": {"yanked": True}}, "b": {"1.0.0": {"requires": ["a"]}}, "c": {"1.0.0": {"conflicts": ["a"]}}}
        self.conflict(index, ["a==1.0.0", "c", "b"], "b")


class Ends(Case):
    def test_nothing_wanted(self):
        self.gives({"a": plain("1.0.0")}, ["# nothing"], 0, [])

    def test_bad_lines_are_all_named_and_old_output_stays(self):
        bad = ("a 1.0.0", "a>>1.0.0", "a=1.0.0", "a>=1.0", "a>=1", "a>=1.0.0.0", "a>=01.0.0", "a>=1.0.0-", "a>=1.0.0-rc..1", "a>=1.0.0-rc.01",
               "A", "a_b", "-a", "a-", "a--b", "a b", ">=1.0.0", "a[x", "a]", "a[x,]", "a[X]", "a[x]y", "a>=1.0.0,", "a>=1.0.0 <2.0.0", "a,>=1.0.0",
               "a>=*", "a^1.0.0", "a===1.0.0", "a>=1.0.0[x]", "a # note", "!")
        good = ["a", "", " # a", "\ta [ x ] >= 1.0.0 ,< 2.0.0-rc.1.0a ", "no-such==1.0.0"]
        lines = [line for n, text in enumerate(bad) for line in (good[n % len(good)], text)]
        status, output, errors = self.start({"a": plain("1.0.0")}, "\n".join(lines), out="old\n")
        self.assertEqual((status, output), (2, "old\n"))
        named = {int(n) for n in re.findall(r"\bline (\d+)\b", errors)}
        numbers = {n for n, text in enumerate(lines, 1) if text in bad}
        self.assertEqual(named, numbers, [lines[n - 1] for n in sorted(named ^ numbers) if n <= len(lines)])

    def test_bad_line_makes_no_output(self):
        status, output, errors = self.start({"a": plain("1.0.0")}, "a\n\na>>1\n")
        self.assertEqual((status, output), (2, None))
        self.assertEqual(re.findall(r"\bline (\d+)\b", errors), ["3"])


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

    def test_choices_that_fail_late(self):
        self.large(indexes.late_failures)

    def test_contradiction_of_three_lines_among_sixty(self):
        self.large(indexes.three_in_a_crowd)


class RandomLocks(Locks):
    def test_small_random_problems(self):
        for seed, (status, want) in answers.SMALL.items():
            if status == 0:
                with self.subTest(seed=seed):
                    self.lock(*indexes.small(seed), *want)


class RandomContradictions(Case):
    def test_small_random_problems(self):
        for seed, (status, want) in answers.SMALL.items():
            if status == 1:
                with self.subTest(seed=seed):
                    self.gives(*indexes.small(seed), status, want)


if __name__ == "__main__":
    unittest.main()
