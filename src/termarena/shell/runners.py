"""Programs that run what their words say: `sh -c TEXT`, `find -exec`, `ssh HOST TEXT`, `trap TEXT EXIT`."""

from __future__ import annotations

import re
import shlex
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["COMMAND_OPTION", "LONGEST_COMMAND", "SHELLS", "inner_commands", "places_of_find"]

SHELLS: Final = frozenset({"sh", "bash", "zsh", "dash", "ksh", "fish", "ash"})
LONGEST_COMMAND: Final = 100_000
MOST_STARTS: Final = 3
COMMAND_OPTION: Final = re.compile(r"-[A-Za-z]*c[A-Za-z]*|--command")
_SSH_VALUES: Final = re.compile(r"-[46AaCfGgKkMNnqsTtVvXxYy]*[BbcDEeFIiJLlmOopQRSWw]")
_EXEC_VALUES: Final = frozenset({"-e", "-u", "-w", "-c", "-n", "--env", "--env-file", "--user", "--workdir"})

Words = tuple[str, ...]


def inner_commands(program: str, arguments: Words) -> list[str] | None:
    """The command lines that a call holds among its words; None where they come to more than a command line holds."""
    run = _RUNNERS.get(program)
    return run(arguments) if run is not None else []


def places_of_find(arguments: Words) -> list[str]:
    """Where `find` looks."""
    return list(takewhile(lambda word: not word.startswith(("-", "(", "!")), arguments))


def _by_option(arguments: Words) -> list[str]:
    given = [at for at, word in enumerate(arguments, 1) if COMMAND_OPTION.fullmatch(word)]
    inner = list(arguments[given[0] : given[0] + 1]) if given else []
    return inner + [word.partition("=")[2] for word in arguments if word.startswith("--command=")]


def _by_trap(arguments: Words) -> list[str]:
    """The text that it keeps for later; `trap - EXIT` forgets one."""
    return [word for word in arguments if not word.startswith("-")][:1] if arguments[:1] != ("-",) else []


def _by_alias(arguments: Words) -> list[str]:
    return [word.partition("=")[2] for word in arguments if "=" in word]


def _by_script(arguments: Words) -> list[str]:
    behind = [after for one, after in pairwise(arguments) if re.fullmatch(r"-\w*c|--command", one)]
    return behind + [word.partition("=")[2] for word in arguments if word.startswith("--command=")]


def _by_ssh(arguments: Words) -> list[str]:
    """What stands behind the host, which the shell there reads as one line."""
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        if _SSH_VALUES.fullmatch(rest.pop(0)) and rest:
            rest.pop(0)
    return [" ".join(rest[1:])] if rest[1:] else []


def _by_container(arguments: Words) -> list[str]:
    """What `docker exec` and its like run in a container that is there, behind its name."""
    if arguments[:1] != ("exec",):
        return []
    if "--" in arguments:
        return [shlex.join(arguments[arguments.index("--") + 1 :])]
    rest = list(arguments[1:])
    while rest and rest[0].startswith("-"):
        if rest.pop(0) in _EXEC_VALUES and rest:
            rest.pop(0)
    return [shlex.join(rest[1:])] if rest[1:] else []


def _behind_options(arguments: Words) -> list[str]:
    """What may be the program: that the first words are values of options, only a table of options could say."""
    starts = [at for at, word in enumerate(arguments) if not word.startswith("-")][:MOST_STARTS]
    return [_joined(arguments[at:]) for at in starts]


def _joined(words: Words) -> str:
    """One word with blanks in it is a command line; several are the words of one."""
    return words[0] if len(words) == 1 else shlex.join(words)


def _by_find(arguments: Words) -> list[str] | None:
    """The commands of its `-exec` and the like; what it found stands in them as the place where it looked."""
    found: list[str] = []
    room = LONGEST_COMMAND
    places = places_of_find(arguments) or ["."]
    for at, word in enumerate(arguments):
        if word in ("-exec", "-execdir", "-ok", "-okdir"):
            words = list(takewhile(lambda one: one not in (";", "+"), arguments[at + 1 :]))
            room -= sum(map(len, words)) + words.count("{}") * sum(len(place) + 1 for place in places)
            if room < 0:
                return None
            found.append(shlex.join(place for one in words for place in (places if one == "{}" else (one,))))
    return found


_RUNNERS: Final[Mapping[str, Callable[[Words], list[str] | None]]] = {
    **dict.fromkeys((*SHELLS, "su", "runuser"), _by_option),
    "eval": lambda arguments: [" ".join(arguments)],
    "trap": _by_trap,
    "alias": _by_alias,
    "script": _by_script,
    "ssh": _by_ssh,
    "find": _by_find,
    **dict.fromkeys(("docker", "podman", "nerdctl", "kubectl"), _by_container),
    **dict.fromkeys(("busybox", "toybox", "watch", "parallel", "strace", "flock", "chroot"), _behind_options),
    **dict.fromkeys(
        ("unshare", "nsenter", "setpriv", "unbuffer", "systemd-run", "fakeroot", "entr", "sshpass"), _behind_options
    ),
}
