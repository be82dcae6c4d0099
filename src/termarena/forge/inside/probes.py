"""Looks at files and says what they are, as plain values: once when a task is made, and again when it is graded.

Needs Python alone (and git for repositories). Every probe raises an `OSError`, a `ValueError` or an error of the
format's own module where the thing is not there or is not what it should be; a test that meets one has failed.
"""

from __future__ import annotations

import configparser
import csv
import gzip
import hashlib
import io
import json
import os
import sqlite3
import stat
import subprocess
import sys
import tarfile
import time
import zipfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from termarena.forge.inside.system import cron_jobs, group, owner, people, serves, services, user, yaml_value

if TYPE_CHECKING:
    from collections.abc import Callable

    Questions = list[tuple[str, list[Any]]]

LONGEST_TEXT = 64 << 10
LARGEST_FILE = 64 << 20
MOST_ROWS = 2000
MOST_MEMBERS = 2000
PATIENCE_S = 20
SHORT_BLOB = 4 << 10
AR_MAGIC = b"!<arch>\n"
AR_HEADER = 60


def kind(path: str) -> str:
    """`file`, `folder`, `symlink`, `other` or `absent`."""
    try:
        mode = os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return "absent"
    tests = (("symlink", stat.S_ISLNK), ("file", stat.S_ISREG), ("folder", stat.S_ISDIR))
    return next((name for name, holds in tests if holds(mode)), "other")


def mode(path: str) -> str:
    """The permissions in octal, such as `0755`."""
    return format(stat.S_IMODE(os.lstat(path).st_mode), "04o")


def link_target(path: str) -> str:
    """What a symbolic link points to, as it is written."""
    return os.readlink(path)


def digest(path: str) -> str:
    """SHA-256 of a regular file's bytes."""
    return hashlib.sha256(_bytes(path)).hexdigest()


def text(path: str) -> str:
    """A regular file's text."""
    return _bytes(path).decode("utf-8")


def json_value(path: str) -> object:
    """What a JSON file holds."""
    return json.loads(_bytes(path))


def csv_rows(path: str) -> list[list[str]]:
    """The rows of a CSV file."""
    return list(csv.reader(io.StringIO(text(path), newline="")))


def ini_sections(path: str) -> dict[str, dict[str, str]]:
    """The sections of an INI file, with their names and values."""
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # names as they are written
    parser.read_string(text(path))
    return {section: dict(parser.items(section)) for section in parser.sections()}


def archive_members(path: str) -> dict[str, str]:
    """The members of a tar or zip archive, each with the digest of its content or its kind."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            return {one.filename: _zip_member(archive, one) for one in archive.infolist()[:MOST_MEMBERS]}
    with tarfile.open(path) as archive:
        found: dict[str, str] = {}
        for one in archive:
            if len(found) >= MOST_MEMBERS:
                break
            found[one.name.removeprefix("./") or "."] = _tar_member(archive, one)
        return found


def _zip_member(archive: zipfile.ZipFile, one: zipfile.ZipInfo) -> str:
    return "folder" if one.is_dir() else hashlib.sha256(archive.open(one).read(LARGEST_FILE)).hexdigest()


def _tar_member(archive: tarfile.TarFile, one: tarfile.TarInfo) -> str:
    if one.issym() or one.islnk():
        return "link to " + one.linkname
    content = archive.extractfile(one) if one.isfile() else None
    return hashlib.sha256(content.read(LARGEST_FILE)).hexdigest() if content else "folder" if one.isdir() else "other"


def compressed_text(path: str) -> str:
    """The text in a gzip file."""
    with gzip.open(path) as file:
        return file.read(LARGEST_FILE).decode("utf-8")


def sqlite_columns(path: str) -> dict[str, list[str]]:
    """Of each table and view of an SQLite database, the names of its columns."""
    with _database(path) as database:
        names = [row[0] for row in database.execute("select name from sqlite_master where type in ('table', 'view')")]
        names = [name for name in names if not name.startswith("sqlite_")]
        return {name: [row[1] for row in database.execute(f"pragma table_info({_quoted(name)})")] for name in names}


def sqlite_indexes(path: str) -> list[str]:
    """The names of the indexes that somebody made."""
    with _database(path) as database:
        query = "select name from sqlite_master where type = 'index' and sql is not null order by name"
        return [row[0] for row in database.execute(query)]


def sqlite_rows(path: str, table: str) -> list[list[object]]:
    """The rows of a table, in no order."""
    with _database(path) as database:
        query = f"select * from {_quoted(table)}"  # noqa: S608 - a name cannot be a parameter
        rows = database.execute(query).fetchmany(MOST_ROWS)
        return sorted((list(map(_plain, row)) for row in rows), key=repr)


def _database(path: str) -> closing[sqlite3.Connection]:
    if kind(path) != "file":
        raise FileNotFoundError(path)
    # Immutable: nothing is written beside it, and no journal of somebody else's is played back.
    database = sqlite3.connect("file:" + path.replace("%", "%25").replace("?", "%3f") + "?mode=ro", uri=True)
    return closing(database)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _plain(value: object) -> object:
    return value.hex() if isinstance(value, bytes) else value


def git_branch(path: str) -> str:
    """The branch that a repository is on."""
    return _git(path, "symbolic-ref", "--short", "HEAD")


def git_branches(path: str) -> list[str]:
    """The names of its branches."""
    return _git(path, "for-each-ref", "--format=%(refname:short)", "refs/heads").split()


def git_tags(path: str) -> list[str]:
    """The names of its tags."""
    return _git(path, "for-each-ref", "--format=%(refname:short)", "refs/tags").split()


def git_subjects(path: str, revision: str = "HEAD") -> list[str]:
    """The first lines of the commits' messages, newest first, of a history without merges."""
    if _git(path, "log", "--merges", "--format=%H", revision, "--"):
        raise ValueError("a history with merges has no order of its own")
    return _git(path, "log", "--topo-order", "--format=%s", revision, "--").split("\n")


def git_commits(path: str, revision: str = "HEAD") -> list[str]:
    """The first lines of the commits' messages, in the order of the alphabet."""
    return sorted(_git(path, "log", "--format=%s", revision, "--").split("\n"))


def git_merges(path: str, revision: str = "HEAD") -> list[list[str]]:
    """Of each commit with several parents, the first lines of its message and of its parents', in their order."""
    rows = _git(path, "log", "--merges", "--format=%H %P", revision, "--").split("\n")
    subjects = [[_git(path, "log", "-1", "--format=%s", one) for one in row.split()] for row in rows if row]
    return sorted(subjects)


def git_files(path: str, revision: str = "HEAD") -> dict[str, str]:
    """The files that a commit holds with their text, or with a digest where that is long or no text."""
    names = [name for name in _git(path, "ls-tree", "-r", "-z", "--name-only", revision).split("\0") if name]
    return {name: _blob(path, revision + ":" + name) for name in names[:MOST_MEMBERS]}


def _blob(path: str, name: str) -> str:
    content = _git_bytes(path, "cat-file", "blob", name)
    short = len(content) <= SHORT_BLOB and _is_text(content)
    return content.decode() if short else "sha256:" + hashlib.sha256(content).hexdigest()


def git_status(path: str) -> list[str]:
    """What differs from the last commit, a line per file; empty for a clean working tree."""
    return _git(path, "status", "--porcelain").splitlines()


def _git(path: str, *words: str) -> str:
    return _git_bytes(path, *words).decode("utf-8", "replace").rstrip("\n")


def _git_bytes(path: str, *words: str) -> bytes:
    if not os.path.isdir(path):
        raise FileNotFoundError(path)
    settings = ["-c", "safe.directory=*", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"]
    done = subprocess.run(  # noqa: S603 - fixed words
        ["git", *settings, "-C", path, *words],  # noqa: S607 - the sandbox's own
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
        env={"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": "/nonexistent", "LC_ALL": "C"},
    )
    if done.returncode != 0:
        raise ValueError(done.stderr.decode("utf-8", "replace").strip()[-200:])
    return done.stdout


def output_of(argv: list[str], cwd: str) -> dict[str, object]:
    """What a program prints and how it ends; it has no input."""
    done = subprocess.run(  # noqa: S603 - the words of a test
        argv, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S, check=False
    )
    return {"status": done.returncode, "stdout": done.stdout[:LONGEST_TEXT].decode("utf-8", "replace")}


def is_program(path: str) -> bool:
    """Whether it is a compiled program that everyone may run."""
    return _bytes(path)[:4] == b"\x7fELF" and bool(os.stat(path).st_mode & stat.S_IXOTH)


def library_members(path: str) -> list[str]:
    """The names of the members of a static library, in order; its tables of names and symbols are none."""
    content, at, found = _bytes(path), len(AR_MAGIC), []
    if not content.startswith(AR_MAGIC):
        raise ValueError("no static library")
    while at + AR_HEADER <= len(content):
        name, size = content[at : at + 16].decode("utf-8", "replace").strip(), int(content[at + 48 : at + 58])
        found += [] if name.startswith("/") else [name.rstrip("/")]
        at += AR_HEADER + size + size % 2
    return found


def _bytes(path: str) -> bytes:
    if kind(path) not in ("file", "symlink") or not os.path.isfile(path):
        raise FileNotFoundError(path)
    with open(path, "rb") as file:
        content = file.read(LARGEST_FILE + 1)
    if len(content) > LARGEST_FILE:
        raise ValueError("a file of more than 64 MiB")
    return content


# Making: which probes say something about a path.


def facts_of_file(path: str) -> Questions:
    """The probes that fit a regular file, by what it holds; the most telling ones only."""
    content = _bytes(path)
    if content.startswith(b"SQLite format 3\0"):
        tables = sqlite_columns(path)
        return [("sqlite_columns", []), ("sqlite_indexes", []), *(("sqlite_rows", [name]) for name in tables)]
    compiled = "is_program" if content.startswith(b"\x7fELF") else "library_members"
    if content.startswith((b"\x7fELF", AR_MAGIC)):
        return [(compiled, [])]
    if zipfile.is_zipfile(path) or tarfile.is_tarfile(path):
        return [("archive_members", [])]
    if content.startswith(b"\x1f\x8b") and _is_text(gzip.decompress(content)):
        return [("compressed_text", [])]
    if not _is_text(content) or len(content) > LONGEST_TEXT:
        return [("digest", [])]
    return [(_text_probe(path), [])]


def _is_text(content: bytes) -> bool:
    try:
        return "\0" not in content.decode("utf-8")
    except UnicodeDecodeError:
        return False


def _text_probe(path: str) -> str:
    if path.startswith(("/var/spool/cron/", "/etc/cron.d/")) or path == "/etc/crontab":
        return "cron_jobs"
    by_suffix = {".json": ("json_value", json_value), ".csv": ("csv_rows", csv_rows)}
    by_suffix.update(dict.fromkeys((".ini", ".cfg"), ("ini_sections", ini_sections)))
    by_suffix.update(dict.fromkeys((".yaml", ".yml"), ("yaml_value", yaml_value)))
    name, probe = by_suffix.get(Path(path).suffix, ("text", text))
    try:
        found = probe(path)
    except (ValueError, configparser.Error, csv.Error):
        return "text"
    return name if found else "text"


def facts_of_repository(path: str) -> Questions:
    """The probes that fit a git repository; those about the working tree where there is one."""
    branches = git_branches(path)
    found: Questions = [("git_branch", []), ("git_branches", []), ("git_tags", [])]
    if branches:
        here = git_branch(path)
        found += [("git_merges", []), *_history(path, [])]
        found += [question for name in branches if name != here for question in _history(path, [name])]
    if os.path.exists(os.path.join(path, ".git")):
        found.append(("git_status", []))
    return found


def _history(path: str, revision: list[Any]) -> Questions:
    subjects = "git_commits" if git_merges(path, *revision) else "git_subjects"
    return [(subjects, revision), ("git_files", revision)]


BEYOND_FILES = {one.__name__: one for one in (cron_jobs, group, owner, serves, user, yaml_value)}


def observe(wanted: list[list[Any]]) -> list[list[Any]]:
    """Every fact about what is wanted: a list of [probe, arguments, value]. What cannot be read yields none."""
    found = []
    for question in wanted:
        for probe, arguments in _questions(question):
            try:
                found.append([probe, arguments, (BEYOND_FILES.get(probe) or globals()[probe])(*arguments)])
            except Exception:  # noqa: BLE001, S112 - files of any kind: what no probe can read is no fact
                continue
    return found


def _questions(question: list[Any]) -> Questions:
    what, arguments = question[0], question[1:]
    finders = {"file": facts_of_file, "repository": facts_of_repository}
    everywhere = {"people": people, "services": services}
    if what in everywhere:
        return everywhere[what]()
    if what not in finders:
        return [(what, arguments)]
    try:
        return [(probe, [arguments[0], *more]) for probe, more in finders[what](arguments[0])]
    except Exception:  # noqa: BLE001 - as in `observe`
        return []


# Grading.


def check_all(names: dict[str, Any], logs: str = "/logs/verifier") -> int:
    """Run every `test_` function in its order; writes `ctrf.json` and `reward.txt`, tells the reward where the harness
    holds a pipe for it, and says how each one went."""
    tests = [(name, test) for name, test in names.items() if name.startswith("test_")]
    rows = [_checked(name, test) for name, test in tests]
    passed = sum(row["status"] == "passed" for row in rows)
    summary = {"tests": len(rows), "passed": passed, "failed": len(rows) - passed}
    summary.update({"pending": 0, "skipped": 0, "other": 0, "start": 0, "stop": 0})
    report = {"results": {"tool": {"name": "termarena-forge"}, "summary": summary, "tests": rows}}
    os.makedirs(logs, exist_ok=True)
    Path(logs, "ctrf.json").write_text(json.dumps(report))
    reward = "1\n" if rows and passed == len(rows) else "0\n"
    Path(logs, "reward.txt").write_text(reward)
    if pipe := os.environ.get("TERMARENA_REWARD_FD"):
        os.write(int(pipe), reward.encode())
    return 0


def _checked(name: str, test: Callable[[], None]) -> dict[str, object]:
    began = time.monotonic()
    problem = ""
    try:
        test()
    except Exception as error:  # noqa: BLE001 - whatever goes wrong in a test is its failure
        problem = f"{type(error).__name__}: {error}"[:500]
    print("FAIL" if problem else "ok  ", (test.__doc__ or name).strip().split("\n")[0], problem)  # noqa: T201 - the log
    took_ms = int((time.monotonic() - began) * 1000)
    return {"name": name, "status": "failed" if problem else "passed", "duration": took_ms, "message": problem}


if __name__ == "__main__":
    json.dump(observe(json.load(sys.stdin)), sys.stdout)
