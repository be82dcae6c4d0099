"""Stands where a module of the agent's stood: what runs the tests gets the module of the same name from elsewhere.

This text is put before the agent's own module, which every other process gets. It imports only what is in the
interpreter itself: anything else may be what it stands in for.
"""

import posix
import sys


def taken_from_elsewhere(name: str, path: str, mark: str) -> bool:
    """Whether this process runs the tests and now has the module `name` from another place than this file, `path`; the
    file `mark` is then longer than before."""
    if "." in name or name == "__main__":
        return False
    here = path.rpartition("/")[0]
    if path.endswith("/__init__.py"):
        here = here.rpartition("/")[0]
    try:
        with open("/proc/self/cmdline", "rb") as file:  # noqa: PTH123 - what pathlib imports may be what is stood in for
            words = file.read().split(b"\0")[1:-1]
        others = [place for place in sys.path if place and not is_same(place, here)]
        is_tests = runs_tests(words, here)
        spec = sys.modules["_frozen_importlib_external"].PathFinder.find_spec(name, others) if is_tests else None
    except (OSError, KeyError):
        return False
    if spec is None or spec.loader is None:
        return False
    try:
        with open(mark, "ab") as file:  # noqa: PTH123 - as above
            file.write(b"+")
    except OSError:
        pass
    sys.modules["_frozen_importlib"]._load(spec)  # noqa: SLF001 - importlib's own modules may be what is stood in for
    return True


def is_same(place: str, here: str) -> bool:
    """Whether two folders are one."""
    try:
        one, other = posix.stat(place), posix.stat(here)
    except OSError:
        return False
    return (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)


def is_there(path: bytes) -> bool:
    """Whether something is at a path."""
    try:
        posix.stat(path)
    except OSError:
        return False
    return True


def runs_tests(words: "list[bytes]", here: str) -> bool:
    """Whether Python was started with these words to run tests: a file of theirs, pytest, or a module by its name that
    is none of this folder's."""
    words = list(words)
    while words:
        word = words.pop(0)
        if word == b"-" or not word.startswith(b"-"):
            return word.startswith(b"/tests/") or word.rpartition(b"/")[2] in (b"pytest", b"py.test")
        for at in range(1, len(word)) if not word.startswith(b"--") else ():
            letter, rest = word[at : at + 1], word[at + 1 :]
            if letter == b"m":
                main = b"/" + (rest or (words or [b""])[0]).partition(b".")[0]
                module = here.encode("utf-8", "surrogateescape") + main
                return not is_there(module) and not is_there(module + b".py")
            if letter == b"c":
                return False
            if letter in (b"W", b"X"):
                del words[: 0 if rest else 1]
                break
    return False
