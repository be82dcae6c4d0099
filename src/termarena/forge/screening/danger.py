"""Commands that harm whoever runs them: judged on the programs and words that are really called."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from termarena.forge.screening.foreign import looks_dangerous, looks_harmful, runs_text
from termarena.forge.screening.system_paths import first_whole
from termarena.shell.calls import LANGUAGES, SHELLS, UNKNOWN, program_sources
from termarena.shell.remembering import FETCHERS, hides, placed
from termarena.shell.runners import places_of_find

if TYPE_CHECKING:
    from collections.abc import Iterator

    from termarena.shell.calls import Call, Called

__all__ = ["Danger", "dangers", "dangers_typed"]

INTERPRETERS: Final = SHELLS | {"python", "python2", "python3", "perl", "ruby", "node", "php", "source", ".", "eval"}
_ANSWERING: Final = frozenset({"nc", "ncat", "netcat", "telnet", "socat", "ftp", "tftp"})
_DISK: Final = re.compile(
    r"/dev/(?:r?sd[a-z]|hd[a-z]|vd[a-z]|xvd[a-z]|nvme\d|mmcblk\d|r?disk\d|disk/|block/|mapper/|md\d|nbd\d|k?mem$)\S*"
)
_DISK_TOOLS: Final = frozenset(
    {"wipefs", "shred", "fdisk", "sfdisk", "cfdisk", "gdisk", "parted", "sgdisk", "mke2fs", "mkswap", "blkdiscard"}
    | {"hdparm", "badblocks", "truncate"}
)
_SHOWING: Final = {
    **dict.fromkeys(("fdisk", "sfdisk", "gdisk"), frozenset({"-l", "--list"})),
    "sgdisk": frozenset({"-p", "--print"}),
    "parted": frozenset({"-l", "--list", "-s", "--script", "print"}),
    "hdparm": frozenset({"-I", "-i", "-t", "-T", "-tT", "-Tt"}),
}
_NETWORK_DEVICE: Final = re.compile(r"/dev/(?:tcp|udp)/\S+")
_SOCAT_SHELL: Final = re.compile(r"(?i)(?:exec|system):.*sh\b.*")
_MINERS: Final = frozenset(
    {"xmrig", "minerd", "cgminer", "bfgminer", "ethminer", "cpuminer", "nbminer", "t-rex", "phoenixminer"}
)
_EVERYTHING: Final = frozenset({"1", "-1"})
_ENDS_NOTHING: Final = frozenset({"-l", "-L", "--list", "--table", "-0", "0"})
_INLINE: Final = re.compile(r"-\w*[ceEr]|--eval|--execute")
_LANGUAGES: Final = re.compile(r"(?:python|perl|ruby|node|php|lua|awk|gawk|mawk)[\d.]*")
_ROOT_VOLUME: Final = re.compile(r"(?:-v|--volume=?|--mount=?)?(?:/:/.*|.*\bsource=/,.*|.*\bsrc=/,.*)")


class Danger(NamedTuple):
    """What a command would do, and the piece of it that does."""

    rule: str
    reason: str
    text: str


def dangers(script: Called, text: str) -> Iterator[Danger]:
    """The dangers in one command. What the grammar does not cover is judged by its look."""
    for bomb in script.bombs:
        yield Danger("fork-bomb", "it starts processes without end", bomb[:200])
    for call in script.calls:
        yield from _in_call(call)
    if script.is_overgrown:
        yield Danger("unparsed", "its variables come to more than is read here", text[:200])
    elif not script.is_whole and looks_dangerous(text):
        yield Danger("unparsed", "it cannot be taken apart, and looks dangerous", text[:200])


def dangers_typed(text: str) -> Iterator[Danger]:
    """The dangers in a line that was typed into something else than a shell."""
    if looks_harmful(text):
        yield Danger("scripts-harm", "what was typed into another program looks dangerous", text[:200])


def _in_call(call: Call) -> Iterator[Danger]:
    if call.words[:1] == (UNKNOWN,) and call.words[1:]:  # a variable that is empty leaves the words behind it
        yield from _in_call(replace(call, words=call.words[1:], sources=call.sources[1:]))
    for rule in _RULES:
        if (reason := rule(call)) is not None:
            yield Danger(rule.__name__.strip("_").replace("_", "-"), reason, call.text[:200])


def _removes(call: Call) -> str | None:
    if call.program == "find":
        named = _found_and_removed(call)
    elif call.program == "rsync" and any(word.startswith("--del") for word in call.arguments):
        named = call.operands()[-1:]
    elif call.program == "git" and "clean" in call.operands() and call.has_flag("f", "--force"):
        places = [after for one, after in pairwise(call.arguments) if one == "-C"] or ["."]
        named = [place for place in places if placed(place, call.cwd).startswith(("/", "~"))]  # else a repository
    elif call.program == "mv":
        named = call.operands()[:-1]
    elif call.program in ("rm", "unlink"):
        named = [*call.operands(), *(_fed_to(call) if "xargs" in call.wrappers else ())]
        if "xargs" in call.wrappers and call.has_flag("rR", "--recursive") and _is_listed(call):
            return "it removes what a list names, and nothing tells what stands there"
    else:
        return None
    whole = first_whole(named, call.cwd)
    return f"it removes {_shown(whole, call)} with everything in it" if whole is not None else None


def _found_and_removed(find: Call) -> list[str]:
    """Where `find` removes what it finds; in a home folder only if it looks for no names."""
    removes = "-delete" in find.arguments or any(
        one in ("-exec", "-execdir") and after.rpartition("/")[2] == "rm" for one, after in pairwise(find.arguments)
    )
    is_narrow = not {"-name", "-iname", "-path", "-regex"}.isdisjoint(find.arguments)
    places = (places_of_find(find.arguments) or ["."]) if removes else []
    return [place for place in places if not is_narrow or placed(place, find.cwd) not in ("~", "/root")]


def _fed_to(call: Call) -> list[str]:
    """What `find`, `ls`, `echo` or `printf` names for it."""
    found = [place for feeder in call.fed_by if feeder.program == "find" for place in places_of_find(feeder.arguments)]
    return found + [word for one in call.fed_by if one.program in ("echo", "printf", "ls") for word in one.operands()]


def _is_listed(call: Call) -> bool:
    """Whether its words come from a file, not from a program that names what is there."""
    return not call.fed_by or call.fed_by[0].program == "cat"


def _shown(word: str, call: Call) -> str:
    """The word, and where it leads if that is not plain."""
    place = placed(word, call.cwd)
    return word if place.rstrip("/") == word.rstrip("/") else f"{word} ({place})"


def _overwrites_disk(call: Call) -> str | None:
    targets = list(call.writes)
    makes = call.program.startswith("mkfs")
    named = [word[3:] for word in call.arguments if word.startswith("of=")]
    if (makes or call.program in _DISK_TOOLS) and not _only_shows(call):
        named += call.operands()
    elif call.program in ("cp", "tee", "mv"):
        targets += call.operands()[-1:]
    disks = [target for target in (*targets, *named) if _DISK.fullmatch(placed(target, call.cwd))]
    if disks:
        return f"it overwrites the disk {disks[0]}"
    is_unknown = (makes or call.program == "dd") and UNKNOWN in named
    return "it overwrites something, and nothing tells what" if is_unknown else None


def _only_shows(call: Call) -> bool:
    """Whether a tool for disks is asked for nothing but what is there."""
    asked = {word for word in call.arguments if not word.startswith("/")}
    return bool(asked) and asked <= _SHOWING.get(call.program, frozenset())


def _pipes_to_shell(call: Call) -> str | None:
    fetched = [one for one in _programs_of(call) if one.program in FETCHERS | _ANSWERING]
    return f"it runs what {fetched[0].program} downloads" if fetched else None


def _runs_hidden(call: Call) -> str | None:
    if call.is_unread:
        return "it runs a script that is too long to be read here"
    hidden = [one for one in _programs_of(call) if hides(one)]
    return f"it runs what {hidden[-1].program} makes, which cannot be read here" if hidden else None


def _programs_of(call: Call) -> Iterator[Call]:
    """The calls whose output it runs: fed to it, in its words, or in the file that it is to run."""
    if call.brought_by is not None:
        yield call.brought_by
    if (bool(call.words) and UNKNOWN in call.words[0]) or _is_fed_program(call):
        for feeder in call.fed_by:
            yield from (feeder, *feeder.made_of)
    yield from program_sources(call)


def _is_fed_program(call: Call) -> bool:
    """Whether what it is fed is a program for it; a shell's own script may read what it likes, so it counts as one."""
    is_shell = call.program in SHELLS | {"source", ".", "eval", "at", "batch", "su", "sudo"}
    if LANGUAGES.fullmatch(call.program) and any(map(runs_text, call.arguments)):
        return True
    return is_shell or (call.program in INTERPRETERS and not set(call.operands()) - {"-"})


def _opens_shell(call: Call) -> str | None:
    words = (*call.writes, *call.arguments)
    to_device = call.program in SHELLS | {"exec", ""} and any(_NETWORK_DEVICE.fullmatch(word) for word in words)
    has_execute = call.has_flag("ec", "--exec", "--sh-exec") and any(
        word.rpartition("/")[2] in SHELLS for word in call.arguments
    )
    bare = [feeder for feeder in call.fed_by if feeder.program in SHELLS and not feeder.operands()]
    through = call.program in ("nc", "ncat", "netcat", "telnet") and (has_execute or bool(bare))
    by_socat = call.program == "socat" and any(_SOCAT_SHELL.fullmatch(word) for word in call.arguments)
    return "it gives a shell to another host" if to_device or through or by_socat else None


def _mines(call: Call) -> str | None:
    is_pool = any(word.startswith(("stratum+tcp://", "stratum+ssl://")) for word in call.arguments)
    return "it mines a currency" if call.program.lower() in _MINERS or is_pool else None


def _opens_all(call: Call) -> str | None:
    if call.program not in ("chmod", "chown", "chgrp") or not call.has_flag("R", "--recursive"):
        return None
    whole = first_whole(call.operands()[1:], call.cwd)
    return f"it changes the rights of everything in {_shown(whole, call)}" if whole is not None else None


def _opens_host(call: Call) -> str | None:
    is_container = call.program in ("docker", "podman", "nerdctl")
    mounts = [word for word in call.arguments if _ROOT_VOLUME.fullmatch(word)]
    return "it gives a container the whole machine" if is_container and mounts else None


def _ends_all(call: Call) -> str | None:
    if "/proc/sysrq-trigger" in call.writes:
        return "it ends the machine"
    return "it ends every process" if call.program == "kill" and _EVERYTHING & set(_killed(call.arguments)) else None


def _killed(words: tuple[str, ...]) -> tuple[str, ...]:
    """Whom `kill` ends: nobody where it lists signals, or asks whether somebody is there."""
    if words[:1] in (("-s",), ("-n",)):
        signal, whom = words[1:2], words[2:]
    else:
        signal, whom = (
            (words[:1], words[1:]) if words[:1] != ("--",) and "".join(words[:1]).startswith("-") else ((), words)
        )
    return () if _ENDS_NOTHING.issuperset(signal) and signal else tuple(word for word in whom if word != "--")


def _scripts_harm(call: Call) -> str | None:
    """A program of another language: within the command line, at its input, or in a file that the session wrote."""
    programs = list(call.scripts)
    if _LANGUAGES.fullmatch(call.program):
        is_awk = call.program.endswith("awk")
        programs += [text for option, text in pairwise(call.arguments) if is_awk or _INLINE.fullmatch(option)]
        programs += call.arguments[:1] if is_awk else [word for word in call.arguments if _INLINE.match(word)]
    harmful = [text for text in programs if looks_harmful(text)]
    return f"the {call.program} program in it looks dangerous" if harmful else None


_RULES: Final = (
    _removes,
    _overwrites_disk,
    _pipes_to_shell,
    _runs_hidden,
    _opens_shell,
    _mines,
    _opens_all,
    _opens_host,
    _ends_all,
    _scripts_harm,
)
