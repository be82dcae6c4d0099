import hashlib
import os
import shutil
import stat
import tempfile
import unittest
import zlib

from listing import listing

RECOVERED = listing("/app/recovered")  # before guard makes /app readable for everybody

import guard  # noqa: E402
from gitmake import Repository, noise, project  # noqa: E402

PROGRAM = "/app/recover"


def files_of(repo, tree, prefix=""):
    """What listing() must say about a tree that was written out."""
    wanted, data = {}, repo.objects[tree][1]
    while data:
        head, _, data = data.partition(b"\0")
        mode, name = head.decode().split(" ", 1)
        ident, data = data[:20].hex(), data[20:]
        path = prefix + name
        if mode == "40000":
            wanted[path] = ("folder", "0o755", None)
            wanted.update(files_of(repo, ident, path + "/"))
        elif mode == "160000":
            wanted[path] = ("folder", "0o755", None)
        elif mode == "120000":
            wanted[path] = ("link", None, repo.objects[ident][1].decode())
        else:
            wanted[path] = ("file", "0o" + mode[3:], hashlib.sha256(repo.objects[ident][1]).hexdigest())
    return wanted


def tree_of(repo, commit):
    return repo.objects[commit][1].split(b"\n")[0].split(b" ")[1].decode()


def report(repo, commit, branch, objects, corrupt):
    return "".join([f"commit {commit}\ntree {tree_of(repo, commit)}\nbranch {branch}\nobjects {objects}\n"] + [f"corrupt {i} {p}\n" for i, p in sorted(corrupt)])


def contents(git_dir):
    """The files of a repository, for comparison; folders only count by what is in them."""
    return {path: what[2] for path, what in listing(git_dir).items() if what[0] == "file"}


def setUpModule():
    """All tools but Git, in one folder: where a program under test looks for them."""
    if not os.access(PROGRAM, os.X_OK):
        raise AssertionError(f"no program {PROGRAM}")
    tools = tempfile.mkdtemp(dir="/tmp")
    unittest.addModuleCleanup(shutil.rmtree, tools, ignore_errors=True)
    os.chmod(tools, 0o755)
    for folder in ("/usr/bin", "/bin"):
        for name in os.listdir(folder):
            if not name.startswith("git") and not os.path.lexists(os.path.join(tools, name)):
                os.symlink(os.path.join(folder, name), os.path.join(tools, name))
    guard.ENV["PATH"] = tools


class Project(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.dir, ignore_errors=True)
        cls.told = project(os.path.join(cls.dir, ".git"))

    def test_report(self):
        told = self.told
        with open("/app/report.txt") as file:
            self.assertEqual(file.read(), report(told["repo"], told["commit"], told["branch"], told["objects"], told["corrupt"]))

    def test_branch_is_restored(self):
        with open(os.path.join("/app/project/.git", self.told["branch"])) as file:
            self.assertEqual(file.read(), self.told["commit"] + "\n")

    def test_nothing_else_in_the_repository_changed(self):
        before, after = contents(os.path.join(self.dir, ".git")), contents("/app/project/.git")
        after.pop(self.told["branch"], None)
        self.assertEqual(after, before)

    def test_recovered_files(self):
        self.assertEqual(RECOVERED, files_of(self.told["repo"], tree_of(self.told["repo"], self.told["commit"])))


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.dir = guard.folder(self)
        self.git = os.path.join(self.dir, "some repo", ".git")

    def repository(self, head="refs/heads/main"):
        return Repository(self.git, head)

    def call(self, subject, out="out put", umask=0o022, arguments=None):
        for folder, folders, files in os.walk(os.path.join(self.dir, "some repo")):
            for name in [folder, *(os.path.join(folder, n) for n in folders + files)]:
                guard.give(name)
        status, text, err = guard.run([PROGRAM, *(arguments or ["some repo/.git", subject, out])], self.dir, timeout=15, umask=umask)
        return status, text.decode(errors="replace"), err.decode(errors="replace")[-500:]

    def recover(self, repo, subject, commit, corrupt=(), lost=0, branch="refs/heads/main", umask=0o022):
        before = contents(self.git)
        status, text, err = self.call(subject, umask=umask)
        self.assertEqual(status, 0, err)
        self.assertEqual(text, report(repo, commit, branch, len(repo.objects) - lost, corrupt))
        out = os.path.join(self.dir, "out put")
        self.assertEqual(listing(out), files_of(repo, tree_of(repo, commit)))
        self.assertEqual(oct(stat.S_IMODE(os.stat(out).st_mode)), "0o755")
        after = contents(self.git)
        self.assertEqual(after.pop(branch, None), hashlib.sha256((commit + "\n").encode()).hexdigest())
        self.assertEqual(after, before)

    def refuse(self, subject, status=1, out="out put", arguments=None):
        before, around = contents(self.git), sorted(os.listdir(self.dir))
        got, text, _ = self.call(subject, out, arguments=arguments)
        self.assertEqual((got, text), (status, ""))
        self.assertEqual(contents(self.git), before)
        self.assertEqual(sorted(os.listdir(self.dir)), around)

    def simple(self, repo, message="Hello\n", when=1700000000, extra=None, **more):
        """A commit with a few files."""
        entries = {"a file": ("100644", repo.blob(f"content {when}\n")), "tool": ("100755", repo.blob("#!/bin/sh\n")), **(extra or {})}
        return repo.commit(repo.tree(entries), [], message, when, **more)


class Loose(Case):
    def test_only_loose_objects(self):
        repo = self.repository()
        sub = repo.tree({"deep": repo.tree({"-rf": ("100644", repo.blob("x")), "down": ("120000", repo.blob("../../a file"))}), "empty": ("100644", repo.blob(b""))})
        commit = self.simple(repo, extra={"sub.d": sub, "sub": ("160000", "ab" * 20), "bin": ("100644", repo.blob(noise("bin", 5000)))})
        for i in repo.objects:
            repo.loose(i, level=len(i) % 10 if i[0] < "8" else 0)
        self.recover(repo, "Hello", commit)

    def test_strict_and_loose_umask(self):
        for umask in (0o077, 0):
            with self.subTest(umask=oct(umask)):
                shutil.rmtree(os.path.join(self.dir, "some repo"), ignore_errors=True)
                shutil.rmtree(os.path.join(self.dir, "out put"), ignore_errors=True)
                repo = self.repository()
                commit = self.simple(repo, extra={"d": repo.tree({"x": ("100755", repo.blob("x"))}), "m": ("160000", "ab" * 20)})
                for i in repo.objects:
                    repo.loose(i)
                self.recover(repo, "Hello", commit, umask=umask)

    def test_leftovers_are_ignored(self):
        repo = self.repository("refs/heads/topic/deep/er")
        commit = self.simple(repo)
        for i in repo.objects:
            repo.loose(i)
        some = next(iter(repo.objects))
        repo.file(f"objects/{some[:2]}/tmp_obj_abcdef", b"junk")
        repo.file(f"objects/{some[:2]}/{some[2:]}.bak", b"junk")
        repo.file(f"objects/{some[:2]}/{some[2:-1]}", b"junk")
        repo.file("objects/info/packs", b"P pack-none.pack\n")
        repo.file("objects/pack/tmp_pack_Zz", b"PACK")
        repo.file("objects/pack/pack-" + "0" * 40 + ".pack", b"PACK\0\0\0\2\0\0\0\1junk")
        repo.file("objects/pack/pack-" + "1" * 40 + ".idx", b"junk")
        repo.file("objects/XY/" + "z" * 38, b"junk")
        self.recover(repo, "Hello", commit, branch="refs/heads/topic/deep/er")


class Packs(Case):
    def test_plain_entries_only(self):
        repo = self.repository()
        commit = self.simple(repo)
        repo.tag(commit, "v1", "Hello\n")
        repo.pack(list(repo.objects))
        self.recover(repo, "Hello", commit)

    def test_chains_of_both_kinds_and_large_copies(self):
        repo = self.repository()
        one = noise("one", 210000)
        two = noise("head", 300) + one[5:150000] + noise("mid", 500) + one[20:70000] + one[200000:]
        three = two[:65536] + b"!" + two[65536:]
        four = three[100000:] + three[:65536 * 2]
        ids = [repo.blob(x) for x in (one, two, three, four)]
        files = {f"f{n}": ("100644", i) for n, i in enumerate(ids)}
        old = repo.tree({f"name {n}": ("100644", ids[n % 4]) for n in range(30)})
        new = repo.tree({f"name {n}": ("100644", ids[n % 3]) for n in range(31)})
        commit = self.simple(repo, extra={**files, "old": old, "new": new})
        parent = self.simple(repo, "Other\n" + "much text " * 30)
        similar = self.simple(repo, "Other\n" + "much text " * 30 + "more")
        plan = [(ids[3], "ref", ids[2]), ids[0], (ids[1], "ofs", ids[0]), new, (ids[2], "ofs", ids[1]), (old, "ofs", new), parent, (similar, "ref", parent)]
        rest = [i for i in repo.objects if i not in [p[0] if isinstance(p, tuple) else p for p in plan]]
        repo.pack(plan + rest)
        self.recover(repo, "Hello", commit)

    def test_long_chain(self):
        repo = self.repository()
        text, ids = "".join(f"line {n}\n" for n in range(400)), []
        for n in range(60):
            text = text.replace(f"line {n * 5}\n", f"line {n * 5} changed\n")
            ids.append(repo.blob(text))
        commit = self.simple(repo, extra={f"v{n}": ("100644", i) for n, i in enumerate(ids)})
        plan = [(b, "ref", a) for a, b in zip(ids[:30], ids[1:31])][::-1] + [ids[0]] + [(b, "ofs", a) for a, b in zip(ids[30:], ids[31:])]
        repo.pack(plan + [i for i in repo.objects if i not in ids])
        self.recover(repo, "Hello", commit)

    def test_several_packs_and_doubles(self):
        repo = self.repository()
        texts = [repo.blob("".join(f"{n} {k}\n" for n in range(300))) for k in range(6)]
        commit = self.simple(repo, extra={f"t{n}": ("100644", i) for n, i in enumerate(texts)})
        others = [i for i in repo.objects if i not in texts]
        repo.pack([*texts[:3], (texts[3], "ofs", texts[1])])
        repo.pack([texts[3], texts[4], (texts[5], "ref", texts[4]), *others[:2]])
        for i in others[1:] + texts[2:4]:
            repo.loose(i)
        self.recover(repo, "Hello", commit)


class Choice(Case):
    def stored(self, repo):
        for n, i in enumerate(list(repo.objects)):
            if n % 2:
                repo.loose(i)
        repo.pack([i for n, i in enumerate(repo.objects) if n % 2 == 0])

    def test_latest_committer_time_wins(self):
        repo = self.repository()
        for when, author, zone in ((1700000500, 1800000000, "+0000"), (1700009000, 1600000000, "-1200"), (1700000900, 1700099999, "-1100"), (999999999, 999999999, "+0000")):
            commit = repo.commit(repo.tree({"f": ("100644", repo.blob(f"{when}"))}), [], "Pick me\n", author, when, zone)
            if when == 1700009000:
                wanted = commit
        repo.commit(repo.tree({}), [wanted], "Pick me too\n", 1900000000)
        self.stored(repo)
        self.recover(repo, "Pick me", wanted)

    def test_subject_is_the_whole_first_line(self):
        repo = self.repository()
        for message in ("Fix it \n", " Fix it\n", "Fix it.\n", "fix it\n", "About\n\nFix it\n", "\nFix it\n", "", "Fix\nit\n", "Fix it\r\n"):
            self.simple(repo, message, 1800000000 + len(message))
        self.simple(repo, "Fix it", 1600000000)
        commit = self.simple(repo, "Fix it\nand more on the next line\n", 1700000000)
        self.stored(repo)
        self.recover(repo, "Fix it", commit)

    def test_headers_that_look_like_others(self):
        repo = self.repository()
        signature = "gpgsig -----BEGIN-----\n committer X <x> 1999999999 +0000\n \n Sign me\n -----END-----\n"
        merge = "mergetag object " + "0" * 40 + "\n type commit\n \n Sign me\nencoding UTF-8\n"
        tree = repo.tree({"f": ("100644", repo.blob("f"))})
        low = repo.commit(tree, [], "Sign me\n", 1700000000, 1700000001, extra=signature)
        high = repo.commit(tree, [low, low], "Sign me\n\ncommitter Y <y> 1999999999 +0000\n", 1700000000, 1700000002, extra=merge, who="C. 1999999999 > Name <1999999999 +0000@example.org>")
        repo.tag(low, "t", "Sign me\n")
        repo.blob(repo.objects[high][1].replace(b"1700000002", b"1700000009"))
        self.stored(repo)
        self.recover(repo, "Sign me", high)

    def test_odd_subjects(self):
        repo = self.repository()
        commit = self.simple(repo, "-x: \"quotes\" $HOME * [a] \\n\n")
        self.simple(repo, "x\n")
        self.stored(repo)
        self.recover(repo, "-x: \"quotes\" $HOME * [a] \\n", commit)

    def test_unknown_subject(self):
        repo = self.repository()
        self.simple(repo)
        self.stored(repo)
        self.refuse("Hell")


class Damage(Case):
    def raw(self, repo, ident):
        kind, data = repo.objects[ident]
        return f"{kind} {len(data)}\0".encode() + data

    def test_all_kinds_of_corrupt_loose_copies_with_good_ones_in_a_pack(self):
        repo = self.repository()
        blobs = [repo.blob(f"blob {n}\n" + "text to fill it up\n" * n * 5) for n in range(10)]
        commit = self.simple(repo, extra={f"b{n}": ("100644", i) for n, i in enumerate(blobs)})
        repo.pack(list(repo.objects))
        packed = zlib.compress(self.raw(repo, blobs[1]))
        damaged = {
            blobs[0]: b"",
            blobs[1]: packed[:len(packed) // 2],
            blobs[2]: zlib.compress(self.raw(repo, blobs[3])),
            blobs[3]: b"\0" * 200,
            blobs[4]: zlib.compress(self.raw(repo, blobs[4]).replace(b"blob 4\n", b"blob 5\n")),
            blobs[5]: zlib.compress(b"blob 7\0" + repo.objects[blobs[5]][1]),
            blobs[6]: zlib.compress(b"tree" + self.raw(repo, blobs[6])[4:]),
            blobs[7]: zlib.compress(self.raw(repo, blobs[7]), 0).replace(b"fill", b"kill", 1),
            blobs[8]: zlib.compress(repo.objects[blobs[8]][1]),
            commit: zlib.compress(self.raw(repo, commit)[:-1]),
        }
        for ident, content in damaged.items():
            repo.loose(ident, content)
        repo.loose(blobs[9])
        self.recover(repo, "Hello", commit, [(i, "loose") for i in damaged])

    def test_a_commit_under_a_wrong_name_is_not_there(self):
        repo = self.repository()
        commit = self.simple(repo, when=1700000000)
        other = self.simple(repo, "Other\n", when=1700000000)
        for i in repo.objects:
            repo.loose(i)
        fake = self.raw(repo, commit).replace(b"1700000000", b"1900000000")
        repo.loose(other, zlib.compress(fake))
        self.recover(repo, "Hello", commit, [(other, "loose")], lost=1)

    def test_corrupt_entries_in_packs_with_good_copies_elsewhere(self):
        repo = self.repository()
        blobs = [repo.blob(noise(n, 900) + noise("same", 3000)) for n in range(6)]
        commit = self.simple(repo, extra={f"b{n}": ("100644", i) for n, i in enumerate(blobs)})
        rest = [i for i in repo.objects if i not in blobs]
        first = repo.pack([blobs[0], (blobs[1], "ofs", blobs[0]), (blobs[2], "ref", blobs[0]), blobs[3], *rest], broken=[blobs[1], blobs[3]])
        second = repo.pack([(blobs[4], "ref", blobs[5]), blobs[5], blobs[3], blobs[2]], broken=[blobs[4], blobs[2]])
        repo.loose(blobs[1])
        repo.loose(blobs[4])
        repo.loose(blobs[3], b"x")
        corrupt = [(blobs[1], first), (blobs[3], first), (blobs[4], second), (blobs[2], second), (blobs[3], "loose")]
        self.recover(repo, "Hello", commit, corrupt)

    def test_lost_objects_that_are_not_needed_do_not_matter(self):
        repo = self.repository()
        commit = self.simple(repo)
        needed = list(repo.objects)
        gone = [repo.blob(noise("gone", 4000)), repo.tree({"gone": ("100644", repo.blob("only in the tree"))})]
        name = repo.pack([*needed, gone[0]], broken=[gone[0]])
        repo.loose(gone[1], b"\x78\x9c")
        repo.loose(repo.blob("only in the tree"))
        self.recover(repo, "Hello", commit, [(gone[0], name), (gone[1], "loose")], lost=2)

    def test_a_needed_blob_is_lost(self):
        repo = self.repository()
        bad = repo.blob("needed\n")
        self.simple(repo, extra={"z": repo.tree({"z": ("100644", bad)})})
        for i in repo.objects:
            repo.loose(i, b"damaged" if i == bad else None)
        self.refuse("Hello")

    def test_a_needed_tree_is_missing(self):
        repo = self.repository()
        sub = repo.tree({"x": ("100644", repo.blob("x"))})
        self.simple(repo, extra={"sub": sub})
        repo.pack([i for i in repo.objects if i != sub])
        self.refuse("Hello")

    def test_the_latest_candidate_counts_even_if_it_is_incomplete(self):
        repo = self.repository()
        self.simple(repo, when=1700000000)
        bad = repo.blob("needed\n")
        self.simple(repo, when=1700000001, extra={"n": ("100644", bad)})
        repo.pack([i for i in repo.objects if i != bad])
        self.refuse("Hello")


class Usage(Case):
    def test_existing_out_dir_and_wrong_arguments(self):
        repo = self.repository()
        self.simple(repo)
        repo.pack(list(repo.objects))
        os.mkdir(os.path.join(self.dir, "there"))
        guard.give(os.path.join(self.dir, "there"))
        self.refuse("Hello", out="there")
        self.assertEqual(os.listdir(os.path.join(self.dir, "there")), [])
        for arguments in (["some repo/.git"], ["some repo/.git", "Hello"], ["some repo/.git", "Hello", "out put", "more"]):
            self.refuse("", 2, arguments=arguments)


if __name__ == "__main__":
    unittest.main()
