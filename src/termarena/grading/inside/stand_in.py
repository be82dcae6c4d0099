"""Stands where a module of the agent's stood: what runs the tests gets the module of the same name from elsewhere.

This text is put before the agent's own module, which every other process gets. It imports only what is in the
interpreter itself: anything else may be what it stands in for.
"""

import posix
import sys

RUNNERS = ("site", "unittest", "pytest", "_pytest", "pluggy", "iniconfig")
"""Modules that are there before any test."""
SHELLS = (b"sh", b"bash", b"dash", b"ash", b"ksh", b"zsh")
LAUNCHERS = (
    *(b"env", b"timeout", b"sudo", b"su", b"runuser", b"setpriv", b"nice", b"nohup", b"time", b"xargs", b"stdbuf"),
    *(b"setsid", b"script", b"unshare", b"chroot", b"strace", b"flock", b"uv", b"uvx"),
)
"""Programs that start what they are told to."""
MOST_BETWEEN = 32


def taken_from_elsewhere(name: str, path: str, mark: str) -> bool:
    """Whether this process runs the tests and now has the module `name` from another place than this file, `path`; the
    file `mark` then holds something else. Files that the agent wrote itself get what it gave them, in this process
    too: they stand in the file `mark` with `-own` behind it, one in each line. Raises `ModuleNotFoundError` where there
    is none elsewhere and what runs tests asks for it; to others it may be what they lack."""
    if "." in name or name == "__main__":
        return False
    here = path.rpartition("/")[0]
    if path.endswith("/__init__.py"):
        here = here.rpartition("/")[0]
    here = here or "/"
    try:
        others = [place for place in sys.path if place and not is_same(place, here)]
        module, source = importer(path)
        is_tests = is_the_tests(here) and source not in lines_of(mark + "-own")
        spec = sys.modules["_frozen_importlib_external"].PathFinder.find_spec(name, others) if is_tests else None
    except (OSError, KeyError, ValueError, IndexError):
        return False
    if spec is not None and spec.loader is None:
        spec = None  # a folder without a source
    if not is_tests or (spec is None and module.partition(".")[0] not in RUNNERS):
        return False
    try:
        with open(mark, "wb") as file:  # noqa: PTH123 - what pathlib imports may be what is stood in for
            file.write(b"+")
    except OSError:
        pass
    if spec is None:
        raise ModuleNotFoundError("No module named " + repr(name), name=name)
    sys.modules["_frozen_importlib"]._load(spec)  # noqa: SLF001 - importlib's own modules may be what is stood in for
    return True


def is_same(place: str, here: str) -> bool:
    """Whether two folders are one."""
    try:
        one, other = posix.stat(place), posix.stat(here)
    except OSError:
        return False
    return (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)


def lines_of(path: str) -> "list[bytes]":
    """The lines of a file; none where it cannot be read."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - as above
            return file.read().split(b"\n")
    except OSError:
        return []


def importer(path: str) -> "tuple[str, bytes]":
    """The name and the file of the module that asks for the one in this file."""
    frame = sys._getframe()  # noqa: SLF001 - inspect may be what is stood in for
    while frame.f_back is not None:
        frame = frame.f_back
        source, module = frame.f_code.co_filename, str(frame.f_globals.get("__name__"))
        if source != path and not source.startswith("<frozen importlib") and module != "importlib":
            return module, source.encode("utf-8", "surrogateescape")
    return "", b""


def is_found_in(here: str, module: str) -> bool:
    """Whether Python finds a module in this folder: a folder without a source does not stand before a package."""
    spec = sys.modules["_frozen_importlib_external"].PathFinder.find_spec(module)
    if spec is None:
        return False
    places = list(spec.submodule_search_locations or [spec.origin or ""])
    return is_same(places[0].rpartition("/")[0] or "/", here)


def is_the_tests(here: str) -> bool:
    """Whether this process runs tests, or was started by what does to run code of theirs."""
    me = posix.getpid()
    found = runs_tests(words_of(me)[1:], here, me)
    return is_started_by_tests(posix.getppid(), here) if found is None else found


def runs_tests(words: "list[bytes]", here: str, pid: int) -> "bool | None":
    """Whether Python was started with these words to run tests: a file of theirs, pytest, or a module by its name that
    is none of this folder's. None for code in the words, or read from the input: it is for who started Python."""
    words = list(words)
    while words:
        word = words.pop(0)
        if word == b"-":
            return None
        if not word.startswith(b"-"):
            return word.rpartition(b"/")[2] in (b"pytest", b"py.test") or is_of_tests(word, pid)
        for at in range(1, len(word)) if not word.startswith(b"--") else ():
            letter, rest = word[at : at + 1], word[at + 1 :]
            if letter == b"m":
                main = (rest or (words or [b""])[0]).partition(b".")[0]
                return not is_found_in(here, main.decode("utf-8", "surrogateescape"))
            if letter == b"c":
                return None
            if letter in (b"W", b"X"):
                del words[: 0 if rest else 1]
                break
    return None


def is_started_by_tests(pid: int, here: str) -> bool:
    """Whether this process, or one that it was started by, runs tests, and all between only pass commands on; a Python
    with code of its own is between, too."""
    for _ in range(MOST_BETWEEN):
        if pid <= 1:
            return False
        words = words_of(pid)
        name = words[0].rpartition(b"/")[2].lstrip(b"-") if words else b""
        found = None
        if name.startswith((b"python", b"pypy")):
            found = runs_tests(words[1:], here, pid)
        elif name in SHELLS:
            found = reads_tests(words[1:], pid)
        elif name not in LAUNCHERS:
            found = bool(words) and is_of_tests(words[0], pid)
        if found is not None:
            return found
        pid = parent_of(pid)
    return False


def reads_tests(words: "list[bytes]", pid: int) -> "bool | None":
    """Whether a shell was started with these words to run a file of the tests; None where the words are the script."""
    words = list(words)
    while words:
        word = words.pop(0)
        if not word.startswith((b"-", b"+")):
            return is_of_tests(word, pid)
        if not word.startswith(b"--") and b"c" in word:
            return None
        if word[1:] in (b"o", b"O"):
            del words[:1]
    return None


def is_of_tests(word: bytes, pid: int) -> bool:
    """Whether a path, as this process was given it, leads to the tests."""
    if not word.startswith(b"/"):
        word = posix.readlink(b"/proc/%d/cwd" % pid) + b"/" + word
    return word.startswith(b"/tests/") and b"/../" not in word


def words_of(pid: int) -> "list[bytes]":
    """What a process was started with."""
    with open("/proc/" + str(pid) + "/cmdline", "rb") as file:  # noqa: PTH123 - as above
        return file.read().split(b"\0")[:-1]


def parent_of(pid: int) -> int:
    """Who started it, or took it over; 0 for nobody."""
    with open("/proc/" + str(pid) + "/stat", "rb") as file:  # noqa: PTH123 - as above
        return int(file.read().rpartition(b") ")[2].split()[1])
