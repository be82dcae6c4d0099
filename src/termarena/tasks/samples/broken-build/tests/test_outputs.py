"""Grades the build of /app/metrics in copies of the tree."""
import contextlib
import hashlib
import math
import os
import shutil
import subprocess
import tempfile
import unittest

import guard

PROJECT = "/app/metrics"
DIGESTS = {
    "README.md": "77d616dd5df427b849ef993f4d610718765389a96d5e8c34418bf8d9406e6d1c",
    "units.tab": "416e338eed953dfa665b26ef5eba3cc2eb62736273025805794d8846d2bc4ec1",
}
SOURCES = ["lib/text/text.c", "lib/text/compare.c", "lib/stats/stats.c", "lib/units/units.c", "lib/units/format.c",
           "src/main.c", "src/options.c", "src/format.c", "tools/mkunits.c"]
HEADERS = ["include/config.h", "lib/text/text.h", "lib/stats/stats.h", "lib/units/units.h", "src/format.h", "src/options.h"]
PRODUCTS = ["build/metrics", "build/libtext.a", "build/libstats.a", "build/libunits.a", "build/tools/mkunits", "build/gen/units_table.h"]
FLAGS = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror"]

SAMPLE = "\n# night run\n  load = 2 min\nload=60 s\n\tscan\t=\t250   MS  \r\nscan = 0.75 s\nidle = 1 h\nload = 3 Min\n"
SAMPLE_OUT = ("metrics 2.1\n"
              "load n=3 mean=120 sd=60 geo=109.027 min=60 max=180 s\n"
              "scan n=2 mean=0.5 sd=0.354 geo=0.433 min=0.25 max=0.75 s\n"
              "idle n=1 mean=3600 sd=0 geo=3600 min=3600 max=3600 s\n")

# Notes how it is called, is slow for the tool that makes a header, and compiles.
WRAPPER = """#!/bin/sh
line=
for arg do line="$line$arg
"; done
printf '%%s--\\n' "$line" >>'%(log)s'
case "$line" in
*mkunits*) [ -e '%(slow)s' ] && sleep 0.3 ;;
esac
exec gcc "$@"
"""


class Tree:
    """A copy of the project, cleaned by hand, with a compiler that keeps a log."""

    def __init__(self, case):
        tmp = tempfile.TemporaryDirectory()
        case.addCleanup(tmp.cleanup)
        self.case, self.root = case, os.path.join(tmp.name, "copy")
        shutil.copytree(PROJECT, self.root, symlinks=True, ignore=shutil.ignore_patterns("build", ".git"))
        self.hand_over()
        self.log, self.slow = os.path.join(tmp.name, "log"), os.path.join(tmp.name, "slow")
        self.cc = os.path.join(tmp.name, "cc")
        with open(self.cc, "w") as f:
            f.write(WRAPPER % {"log": self.log, "slow": self.slow})
        os.chmod(self.cc, 0o755)
        self.reset()
        for path in (tmp.name, self.log):
            guard.give(path)

    def hand_over(self):
        """Gives the tree to the user that the build runs as."""
        for base, dirs, files in os.walk(self.root):
            for name in [""] + files:
                guard.give(os.path.join(base, name))

    def path(self, name):
        return os.path.join(self.root, name)

    def reset(self):
        open(self.log, "w").close()

    def calls(self):
        """How the compiler was called since the last reset."""
        with open(self.log) as f:
            return [c.split("\n")[:-1] for c in f.read().split("--\n")[:-1]]

    def compiled(self):
        """The base names of the .c files compiled since the last reset."""
        return sorted(os.path.basename(a) for c in self.calls() for a in c
                      if a.endswith(".c") and not {"-E", "-M", "-MM"} & set(c))

    def make(self, *args, ok=True):
        env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "CFLAGS", "CPPFLAGS", "LDFLAGS", "LDLIBS")}
        done = subprocess.run(["make", "CC=" + self.cc, *args], cwd=self.root, env=env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, text=True, errors="replace", **guard.WHO)
        if ok is not None:
            self.case.assertEqual(done.returncode == 0, ok, "make %s ended with %d:\n%s" % (
                " ".join(args), done.returncode, done.stdout[-2500:]))
        return done

    def make_slowly(self, *args):
        open(self.slow, "w").close()
        try:
            self.make(*args)
        finally:
            os.unlink(self.slow)

    def run(self, *args, text=SAMPLE):
        return subprocess.run([self.path("build/metrics"), *args], input=text, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=10, text=True, **guard.WHO)

    def listing(self):
        found = {}
        for base, dirs, files in os.walk(self.root):
            for name in files + dirs:
                p = os.path.join(base, name)
                with open(p, "rb") if os.path.isfile(p) else open(os.devnull, "rb") as f:
                    found[os.path.relpath(p, self.root)] = hashlib.sha256(f.read()).hexdigest()
        return found

    def age(self):
        """Makes everything an hour older, so that the next change is newer for sure."""
        for base, dirs, files in os.walk(self.root, topdown=False):
            for name in files + dirs:
                p = os.path.join(base, name)
                s = os.lstat(p)
                os.utime(p, ns=(s.st_atime_ns - 3600 * 10**9, s.st_mtime_ns - 3600 * 10**9), follow_symlinks=False)

    def append(self, name, text):
        self.age()
        with open(self.path(name), "a") as f:
            f.write(text)

    def write(self, name, text):
        self.age()
        with open(self.path(name), "w") as f:
            f.write(text)

    def read(self, name):
        with open(self.path(name)) as f:
            return f.read()

    @contextlib.contextmanager
    def changed(self, name, text):
        """A file with that appended, and afterwards as it was, its time too."""
        self.age()
        path, content, old = self.path(name), self.read(name), os.stat(self.path(name))
        try:
            with open(path, "a") as f:
                f.write(text)
            yield
        finally:
            with open(path, "w") as f:
                f.write(content)
            os.utime(path, ns=(old.st_atime_ns, old.st_mtime_ns))

    def save(self):
        shutil.copytree(self.root, self.root + ".saved", symlinks=True)

    def restore(self, case):
        """Puts the tree back, files and times, where it was saved."""
        self.case = case
        shutil.rmtree(self.root)
        shutil.copytree(self.root + ".saved", self.root, symlinks=True)
        self.hand_over()
        self.reset()


def setUpModule():
    """One tree, built from clean, serves many tests: they get it as it was then. Without it there is nothing to test."""
    global SHARED, BEFORE, AFTER, CALLS, COMPILED
    os.umask(0o022)
    holder = unittest.TestCase()
    unittest.addModuleCleanup(holder.doCleanups)
    SHARED = Tree(holder)
    BEFORE = SHARED.listing()
    SHARED.make()
    AFTER, CALLS, COMPILED = SHARED.listing(), SHARED.calls(), SHARED.compiled()
    SHARED.save()


def built(case):
    SHARED.restore(case)
    return SHARED


class Files(unittest.TestCase):
    def test_all_sources_are_still_there(self):
        for name in SOURCES + HEADERS + ["Makefile"]:
            self.assertTrue(os.path.isfile(os.path.join(PROJECT, name)), name)

    def test_readme_and_table_are_unchanged(self):
        for name, digest in DIGESTS.items():
            with open(os.path.join(PROJECT, name), "rb") as f:
                self.assertEqual(hashlib.sha256(f.read()).hexdigest(), digest, name)


class FullBuild(unittest.TestCase):
    def test_everything_is_made_and_under_build(self):
        for name in PRODUCTS:
            self.assertTrue(os.path.isfile(os.path.join(SHARED.root + ".saved", name)), name)
        self.assertEqual({k: v for k, v in AFTER.items() if k.split("/")[0] != "build"}, BEFORE)

    def test_every_source_is_compiled_once(self):
        self.assertEqual(COMPILED, sorted(os.path.basename(s) for s in SOURCES))

    def test_everything_is_linked_with_the_given_compiler(self):
        outputs = [os.path.basename(c[i + 1]) for c in CALLS for i, a in enumerate(c[:-1]) if a == "-o"]
        outputs += [os.path.basename(a[2:]) for c in CALLS for a in c if a.startswith("-o") and len(a) > 2]
        self.assertIn("metrics", outputs)
        self.assertIn("mkunits", outputs)

    def test_flags(self):
        self.assertNotEqual(CALLS, [])
        for call in CALLS:
            text = " ".join(call)
            with self.subTest(call=text):
                files = [a for a in call if a.endswith(".c")]
                self.assertLessEqual(len(files), 1, "one .c file in each call")
                if files and not {"-E", "-M", "-MM"} & set(call):
                    for flag in FLAGS:
                        self.assertIn(flag, call)
                for bad in ("-Wno-", "-fcommon", "multiple-definition", "muldefs"):
                    self.assertNotIn(bad, text)
                self.assertNotIn("-w", call)

    def test_eight_jobs_with_a_slow_step_and_clean_beside_files_called_like_targets(self):
        tree = Tree(self)
        for name in ("all", "clean"):
            tree.write(name, "")
        before = tree.listing()
        tree.make_slowly("-j8", "all")
        self.assertEqual(tree.run().stdout, SAMPLE_OUT)
        for _ in range(2):
            tree.make("clean")
            self.assertEqual(tree.listing(), before, "clean removes build and nothing else")

    def test_warnings_still_stop_the_build(self):
        tree = built(self)
        tree.append("lib/stats/stats.c", "\nstatic int nobody_calls_this(void) { return 1; }\n")
        tree.make(ok=False)

    def test_a_second_definition_still_stops_the_build(self):
        tree = built(self)
        tree.append("src/format.c", "\nint twice_defined = 1;\n")
        tree.append("src/options.c", "\nint twice_defined = 2;\n")
        tree.make(ok=False)


class Rebuild(unittest.TestCase):
    def makes(self, tree, again, not_again):
        """The next make compiles some again and leaves others; one more has nothing to do."""
        tree.reset()
        tree.make()
        compiled = tree.compiled()
        for name in again:
            self.assertIn(name, compiled)
        for name in not_again:
            self.assertNotIn(name, compiled)
        tree.make("-q")

    def test_second_make_does_nothing(self):
        tree = built(self)
        before = os.stat(tree.path("build/metrics")).st_mtime_ns
        tree.make("-q")
        tree.make()
        self.assertEqual(tree.calls(), [])
        self.assertEqual(os.stat(tree.path("build/metrics")).st_mtime_ns, before)

    def test_change_of_every_file_is_noticed(self):
        tree = built(self)
        for name in [*SOURCES, *HEADERS, "units.tab"]:
            with self.subTest(name), tree.changed(name, "\n"):
                self.assertEqual(tree.make("-q", ok=None).returncode, 1)
        tree.make("-q")

    def test_change_of_a_library_header_and_of_the_unit_table(self):
        tree = built(self)
        tree.append("lib/stats/stats.h", "\n#undef STATS_DDOF\n#define STATS_DDOF 0\n")
        tree.append("units.tab", "Fortnight 1209600\n")
        self.makes(tree, ("stats.c", "main.c", "units.c"), ("text.c", "compare.c", "options.c", "mkunits.c"))
        self.assertIn("load n=3 mean=120 sd=48.99 ", tree.run().stdout)
        self.assertEqual(tree.run("-u", "fortnight", text="x = 28 day\n").stdout,
                         "metrics 2.1\nx n=1 mean=2 sd=0 geo=2 min=2 max=2 Fortnight\n")

    def test_change_of_the_common_header_and_of_a_source(self):
        tree = built(self)
        tree.append("include/config.h", '\n#undef METRICS_VERSION\n#define METRICS_VERSION "3.0-test"\n'
                    "#undef DEFAULT_DECIMALS\n#define DEFAULT_DECIMALS 1\n")
        tree.append("src/format.c", "\n")
        self.makes(tree, ("main.c", "options.c", "format.c"), ("stats.c", "text.c", "compare.c", "units.c"))
        self.assertEqual(tree.compiled().count("format.c"), 1, "there are two, and one changed")
        self.assertEqual(tree.run(text="a = 1.26 s\n").stdout, "metrics 3.0-test\na n=1 mean=1.3 sd=0 geo=1.3 min=1.3 max=1.3 s\n")

    def test_changed_library_source_is_not_linked_stale(self):
        tree = built(self)
        source = tree.read("lib/stats/stats.c")
        tree.append("lib/stats/stats.c", "\n#error not compiled yet\n")
        tree.make(ok=False)
        tree.write("lib/stats/stats.c", "#include <math.h>\n#define exp(x) (42.0 + 0 * (x))\n" + source)
        tree.reset()
        tree.make()
        self.assertEqual(tree.compiled(), ["stats.c"])
        self.assertIn("geo=42 ", tree.run(text="a = 1 s\n").stdout)

    def test_change_of_the_tool_with_two_jobs_and_a_slow_step(self):
        tree = built(self)
        marker = tree.log + ".tool-ran"
        tree.append("tools/mkunits.c", """
#include <stdio.h>
__attribute__((constructor)) static void leave_marker(void)
{
    FILE *f = fopen("%s", "w");
    if (f)
        fclose(f);
}
""" % marker)
        tree.make_slowly("-j2")
        self.assertTrue(os.path.exists(marker), "the new tool was not run")
        self.assertEqual(tree.run().stdout, SAMPLE_OUT)

    def test_new_headers_are_found_and_may_go_again(self):
        tree = built(self)
        source = tree.read("lib/text/text.c")
        tree.write("lib/text/extra.h", "/* nothing yet */\n")
        tree.append("lib/text/text.c", '\n#include "extra.h"\n')
        tree.write("src/inner.h", "/* nothing yet */\n")
        tree.append("src/options.h", '\n#include "inner.h"\n')
        self.makes(tree, ("text.c", "options.c", "main.c"), ("stats.c", "compare.c", "units.c"))
        for header in ("lib/text/extra.h", "src/inner.h"):
            with self.subTest(header), tree.changed(header, "#error changed\n"):
                self.assertEqual(tree.make("-q", ok=None).returncode, 1)
        tree.write("lib/text/text.c", source)
        os.unlink(tree.path("lib/text/extra.h"))
        tree.make()
        self.assertEqual(tree.run().stdout, SAMPLE_OUT)

    def test_bad_unit_table_fails_until_put_right(self):
        tree = built(self)
        table = tree.read("units.tab")
        tree.write("units.tab", "week seven days\n" + table)
        tree.make(ok=False)
        tree.age()
        tree.make(ok=False)
        tree.write("units.tab", table)
        tree.make()
        self.assertEqual(tree.run().stdout, SAMPLE_OUT)

    def test_bad_unit_table_where_no_header_was_made_yet(self):
        tree = built(self)
        os.unlink(tree.path("build/gen/units_table.h"))
        tree.append("units.tab", "week seven days\n")
        tree.make(ok=False)
        tree.make(ok=False)


class Program(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tree = built(cls)

    def check(self, status, out, *args, text=SAMPLE):
        done = self.tree.run(*args, text=text)
        self.assertEqual((done.returncode, done.stdout), (status, out))
        return done.stderr

    def test_sample(self):
        self.assertEqual(self.check(0, SAMPLE_OUT), "")

    def test_empty_input(self):
        self.check(0, "metrics 2.1\n", text="")

    def test_blanks_around_everything(self):
        self.check(0, "metrics 2.1\na n=1 mean=5 sd=0 geo=5 min=5 max=5 s\n", text=" \t a \t = \t 5 \t s \t \r\n\n \t\n  # no\n")

    def test_zeros_are_dropped_only_from_fractions(self):
        self.check(0, "metrics 2.1\na n=1 mean=100 sd=0 geo=100 min=100 max=100 s\n", "-p", "0", text="a = 100 s\n")
        self.check(0, "metrics 2.1\na n=1 mean=1200.5 sd=0 geo=1200.5 min=1200.5 max=1200.5 ms\n", "-p", "6", "-u", "MS", text="a = 1.2005 s\n")

    def test_values_that_end_with_zeros(self):
        self.check(0, "metrics 2.1\nr00 n=1 mean=10 sd=0 geo=10 min=10 max=10 s\n", text="r00 = 10.00 s\n")

    def test_many_values(self):
        values = [(i * 7919 % 1000 + 1) / 10 for i in range(500)]
        mean = math.fsum(values) / 500
        sd = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / 499)
        geo = math.exp(math.fsum(map(math.log, values)) / 500)
        short = lambda v: ("%.2f" % v).rstrip("0").rstrip(".")
        want = "metrics 2.1\nq n=500 mean=%s sd=%s geo=%s min=%s max=%s s\n" % tuple(map(short, (mean, sd, geo, min(values), max(values))))
        self.check(0, want, "-p", "2", text="".join("q = %r s\n" % v for v in values))

    def test_bad_lines(self):
        for line in ("a 5 s", "= 5 s", "a b = 5 s", "a = x s", "a = 5", "a = 0 s", "a = -1 s", "a = 5 parsec", "a = 5 s s"):
            with self.subTest(line):
                self.assertIn("line 3: ", self.check(1, "", text="ok = 1 s\n\n" + line + "\n"))

    def test_bad_options(self):
        for args in (["-p", "10"], ["-u", "furlong"], ["-x"], ["-p"]):
            with self.subTest(args):
                self.check(2, "", *args)

    def test_verbose(self):
        self.assertEqual(self.check(0, SAMPLE_OUT, "-v"), "read 8 lines\n")


if __name__ == "__main__":
    unittest.main()
