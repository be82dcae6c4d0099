"""Words that only say how to run the program behind them: `sudo -u bob nice -n 5 make` is `make`."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Bare", "unwrapped"]


class _Wrapper(NamedTuple):
    """How a wrapper's own words end."""

    letters: str = ""
    """Its short options that take the next word."""
    names: frozenset[str] = frozenset()
    """Its long options that do."""
    operands: int = 0
    """How many words stand between its options and the program."""
    splits: re.Pattern[str] | None = None
    """Its option whose value, which may stand in the same word, falls into the words of the program."""
    folder: tuple[str, ...] = ()
    """Its option whose value is where the program runs: a letter and a name."""


class Bare(NamedTuple):
    """A command without its wrappers."""

    words: tuple[str, ...]
    wrappers: tuple[str, ...]
    """Their names, the outermost first."""
    folders: tuple[str, ...] = ()
    """Where they go before the program runs, one after the other."""


_SUDO: Final = _Wrapper(
    "ugpChDRrtTU",
    frozenset({"--user", "--group", "--prompt", "--host", "--chdir", "--chroot"}),
    folder=("D", "--chdir"),
)
_WRAPPERS: Final[Mapping[str, _Wrapper]] = {
    "sudo": _SUDO,
    "doas": _Wrapper("uC"),
    "env": _Wrapper(
        "uC",
        frozenset({"--unset", "--chdir"}),
        splits=re.compile(r"(?:(?:-[0iv]*S|--split-string=)+|--split-string$)(.*)", re.DOTALL),
        folder=("C", "--chdir"),
    ),
    "nohup": _Wrapper(),
    "time": _Wrapper("fo"),
    "command": _Wrapper(),
    "builtin": _Wrapper(),
    "exec": _Wrapper("a"),
    "nice": _Wrapper("n", frozenset({"--adjustment"})),
    "ionice": _Wrapper("cn", frozenset({"--class", "--classdata"})),
    "stdbuf": _Wrapper("ioe"),
    "setsid": _Wrapper(),
    "coproc": _Wrapper(),
    "timeout": _Wrapper("ks", frozenset({"--kill-after", "--signal"}), operands=1),
}
_XARGS: Final = _Wrapper("InPLsdaE", frozenset({"--max-args", "--max-procs", "--delimiter", "--arg-file"}))


def unwrapped(words: Sequence[str], *, through_xargs: bool = False) -> Bare:
    """Take the wrappers off, however many there are; one with nothing behind it is the program itself.

    With `through_xargs` the program that `xargs` calls counts, not `xargs`.
    """
    rest, wrappers = tuple(words), []
    folders: list[str] = []
    while rest:
        name = rest[0].rpartition("/")[2]
        wrapper = _XARGS if through_xargs and name == "xargs" else _WRAPPERS.get(name)
        inner = _behind(rest[1:], wrapper, folders) if wrapper is not None else _module(name, rest)
        if not inner:
            break
        wrappers.append(name)
        rest = inner
    return Bare(rest, tuple(wrappers), tuple(folders))


def _module(name: str, words: tuple[str, ...]) -> tuple[str, ...]:
    """`python3 -m pip` is pip, and only that: other modules are what an interpreter runs."""
    return words[2:] if re.fullmatch(r"python[\d.]*", name) and words[1:3] == ("-m", "pip") else ()


def _behind(words: tuple[str, ...], wrapper: _Wrapper, folders: list[str]) -> tuple[str, ...]:
    """The words behind the wrapper's own; where it goes first is added to `folders`."""
    rest = list(words)
    while rest and (rest[0].startswith("-") or re.match(r"\w+=", rest[0])):
        option = rest.pop(0)
        if option == "--":
            break
        if wrapper.splits is not None and (split := wrapper.splits.fullmatch(option)):
            rest[: 0 if split[1] else 1] = _split(split[1] or " ".join(rest[:1]))
            continue
        name, value = _valued(option, wrapper)
        if value is None and name and rest:
            value = rest.pop(0)
        if value is not None and name in wrapper.folder:
            folders.append(value)
    return tuple(rest[wrapper.operands :])


def _valued(option: str, wrapper: _Wrapper) -> tuple[str, str | None]:
    """Which of its options a word holds that takes a value, and the value if that is in the same word."""
    if option.startswith("--"):
        name, is_joined, value = option.partition("=")
        return (name, value if is_joined else None) if name in wrapper.names else ("", None)
    for at, letter in enumerate(option[1:] if option.startswith("-") else "", 2):
        if letter in wrapper.letters:
            return letter, option[at:] or None
    return "", None


def _split(text: str) -> list[str]:
    """As `env -S` does, as far as quotes go; at its blanks where they do not end."""
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()
