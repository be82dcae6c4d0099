"""What a command does to the world, by its name and options: the table that slicing rests on.

A program that the table does not know is taken to change something; what it really does is seen when it is replayed.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from termarena.shell.lines import is_file
from termarena.shell.words import words as _names
from termarena.shell.wrappers import unwrapped

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from termarena.shell.calls import Call
    from termarena.shell.lines import Line

__all__ = ["EDITORS", "INSTALLERS", "Effect", "changes_state", "effect_of", "is_pager"]


class Effect(StrEnum):
    """The strongest effect that a command line has."""

    NOTHING = "nothing"  # leaves no trace and shows nothing of the state: clear, exit, a comment
    READS = "reads"  # only looks
    SHELL = "shell"  # changes the shell: folder, variables, functions
    CHANGES = "changes"  # may change files or start something
    TALKS = "talks"  # wants a person: an editor, a pager, a login
    REACHES = "reaches"  # needs a network beyond this machine


_NOTHING: Final = _names("clear exit logout reset history fc bind true : asciinema termarena fg bg jobs disown")
_READS: Final = _names("""
    ls ll la dir vdir cat pwd head tail grep egrep fgrep rg ag wc file stat du df ps whoami id date uname which type
    whereis echo printf tree diff cmp comm uniq cut tr nl od xxd hexdump strings md5sum sha1sum sha256sum sha512sum
    b2sum cksum sum basename dirname realpath readlink env printenv jq test [ [[ seq expr bc factor getent groups
    hostname uptime free lscpu lsblk lsusb lspci man info apropos whatis help tac rev fold fmt paste join column expand
    unexpand numfmt tput stty locale nproc arch users who w last finger lsof ss netstat ip ifconfig bat batcat exa eza
    zcat bzcat xzcat zgrep zless look cal sleep wait yes base64 base32 command compgen ldd nm objdump readelf size
    dpkg-query rpm tty false let times ulimit iconv xmllint xargs dmesg journalctl neofetch screenfetch figlet cowsay
    lolcat
""")
_SHELL: Final = _names("""
    cd pushd popd export declare typeset local readonly unset alias unalias set shopt umask source . hash trap eval
""")
_TALKS: Final = _names("""
    vi vim nvim nano emacs pico micro helix hx joe mcedit less more most top htop btop atop tmux screen ssh telnet ftp
    sftp mc ranger fzf tig lazygit k9s watch passwd su login mysql psql redis-cli mongo ncdu dialog whiptail visudo gdb
""")
EDITORS: Final = _names("vi vim nvim nano emacs pico micro helix hx joe mcedit visudo")
_REACHES: Final = _names("wget rsync scp ping traceroute dig nslookup host whois docker podman kubectl")
INSTALLERS: Final = _names("apt apt-get aptitude yum dnf pacman apk brew snap pip pip3 pipx npm yarn pnpm gem cargo go")
_PAGERS: Final = _names("less more most man info bat batcat git systemctl journalctl top htop watch help pydoc zless")
_LEAVES_NOTHING: Final = _names("""
    less more most top htop btop atop watch fzf tig ncdu ping traceroute dig nslookup host whois
""")
"""Programs that want a person or a network, and still only look."""
_FETCHING: Final = _names("install add update upgrade download get fetch ci i")
_GIT_READS: Final = _names("""
    status log diff show blame shortlog describe rev-parse ls-files ls-tree cat-file grep reflog whatchanged help
    version rev-list show-ref name-rev count-objects fsck check-ignore ls-remote var merge-base cherry for-each-ref
""")
_GIT_REACHES: Final = _names("clone fetch pull push")
_LOCAL: Final = re.compile(r"(?:\w+://)?(?:localhost|127\.\d+\.\d+\.\d+|\[?::1\]?|0\.0\.0\.0)(?:[:/]|$)")
_SQL_READS: Final = re.compile(
    r"\s*(?:select|explain|pragma\s+\w+\s*;?\s*$|with|\.tables|\.schema|\.dump|\.headers|\.mode)", re.I
)
_ORDER: Final = (Effect.NOTHING, Effect.READS, Effect.SHELL, Effect.CHANGES, Effect.TALKS, Effect.REACHES)


def effect_of(line: Line) -> Effect:
    """The strongest effect of its parts; a redirection to a file is a change, whoever is redirected."""
    found = [_effect(_program(simple.words)) for simple in line.simples] or [Effect.NOTHING]
    if line.functions:
        found.append(Effect.SHELL)
    if line.written or line.in_background or not line.is_sound:
        found.append(Effect.CHANGES)
    return max(found, key=_ORDER.index)


def changes_state(call: Call) -> bool:
    """Whether the call leaves something behind: a file, a repository, a package, a service."""
    if any(map(is_file, call.writes)):
        return True
    effect = _effect(call.words) if call.program else Effect.NOTHING
    leaves = effect in (Effect.TALKS, Effect.REACHES) and call.program not in _LEAVES_NOTHING
    return effect is Effect.CHANGES or leaves


def is_pager(call: Call) -> bool:
    """Whether the program takes the screen only to show something; git also does so to let a message be written."""
    return call.program in _PAGERS and (call.program != "git" or not changes_state(call))


def _program(words: tuple[str, ...]) -> tuple[str, ...]:
    return unwrapped(words, through_xargs=True).words


def _effect(words: tuple[str, ...]) -> Effect:
    if not words:
        return Effect.SHELL
    name, rest = words[0].rpartition("/")[2], words[1:]
    asks = rest[:1] == ("-V",) or not {"--help", "--version"}.isdisjoint(rest if name not in _REACHES else rest[:1])
    if asks and name not in _NOTHING:
        return Effect.READS
    special = _SPECIAL.get(name)
    if special is not None:
        return special(rest)
    for names, effect in _TABLE:
        if name in names:
            return effect
    if name in INSTALLERS and _FETCHING & set(rest):
        return Effect.REACHES
    return Effect.CHANGES


_TABLE: Final = (
    (_NOTHING, Effect.NOTHING),
    (_READS, Effect.READS),
    (_TALKS, Effect.TALKS),
    (_REACHES, Effect.REACHES),
    (_SHELL, Effect.SHELL),
)


def _git(rest: tuple[str, ...]) -> Effect:
    words = [word for word in rest if not word.startswith("-")]
    name = words[0] if words else "help"
    if name in _GIT_REACHES:
        remote = words[1] if len(words) > 1 else ""
        return Effect.REACHES if "://" in remote or "@" in remote else Effect.CHANGES
    lists = name in ("branch", "tag", "remote", "stash", "config") and _only_lists(name, words[1:], rest)
    return Effect.READS if name in _GIT_READS or lists else Effect.CHANGES


def _only_lists(name: str, words: list[str], rest: tuple[str, ...]) -> bool:
    if name == "stash":
        return words[:1] in (["list"], ["show"])
    if name == "config":
        return len(words) <= 1 and not any(word.startswith("--unset") for word in rest)
    return not words and not any(word in rest for word in ("-d", "-D", "-m", "-M"))


def _sort(rest: tuple[str, ...]) -> Effect:
    writes = any(re.match(r"-[a-zA-Z]*o|--output", word) for word in rest)
    return Effect.CHANGES if writes else Effect.READS


def _systemctl(rest: tuple[str, ...]) -> Effect:
    asked = next((word for word in rest if not word.startswith("-")), "list-units")
    return Effect.READS if asked in ("status", "show", "cat") or asked.startswith(("list-", "is-")) else Effect.CHANGES


def _in_place(rest: tuple[str, ...]) -> Effect:
    in_place = any(word.startswith("--in-place") or re.match(r"-[a-zA-Z]*i", word) for word in rest)
    return Effect.CHANGES if in_place else Effect.READS


def _awk(rest: tuple[str, ...]) -> Effect:
    writes = any(re.search(r"print[^\n;}]*>|system\(|-i\s*inplace", word) for word in rest)
    return Effect.CHANGES if writes or "inplace" in rest else Effect.READS


def _find(rest: tuple[str, ...]) -> Effect:
    acts = {"-delete", "-exec", "-execdir", "-ok", "-okdir", "-fprint", "-fls", "-fprintf"}
    return Effect.CHANGES if acts & set(rest) else Effect.READS


def _tar(rest: tuple[str, ...]) -> Effect:
    first = next((word for word in rest if not word.startswith("--")), "").lstrip("-")
    return Effect.READS if "t" in first or "--list" in rest else Effect.CHANGES


def _curl(rest: tuple[str, ...]) -> Effect:
    addresses = [word for word in rest if "." in word or "localhost" in word or "://" in word]
    if not any(_LOCAL.match(word) for word in addresses):
        return Effect.REACHES
    writes = any(re.match(r"-[a-zA-Z]*[oOTdX]|--(?:output|remote-name|upload|data|request)", word) for word in rest)
    return Effect.CHANGES if writes else Effect.READS


def _sqlite(rest: tuple[str, ...]) -> Effect:
    words = [word for word in rest if not word.startswith("-")]
    reads = len(words) >= 2 and all(_SQL_READS.match(word) for word in words[1:])  # noqa: PLR2004 - a file, then SQL
    return Effect.READS if reads else Effect.CHANGES


def _lists_if(*flags: str) -> Callable[[tuple[str, ...]], Effect]:
    def effect(rest: tuple[str, ...]) -> Effect:
        return Effect.READS if any(word in flags for word in rest) else Effect.CHANGES

    return effect


_SPECIAL: Final[Mapping[str, Callable[[tuple[str, ...]], Effect]]] = {
    "git": _git,
    "sed": _in_place,
    "yq": _in_place,
    "sort": _sort,
    "systemctl": _systemctl,
    "awk": _awk,
    "gawk": _awk,
    "mawk": _awk,
    "find": _find,
    "tar": _tar,
    "curl": _curl,
    "sqlite3": _sqlite,
    "unzip": _lists_if("-l", "-v", "-t", "-p", "-Z"),
    "zip": _lists_if("-sf", "-T"),
    "gzip": _lists_if("-l", "-t", "-c", "-dc", "-cd"),
    "gunzip": _lists_if("-l", "-t", "-c"),
    "make": _lists_if("-n", "-q", "--dry-run"),
    "crontab": _lists_if("-l"),
    "openssl": _lists_if("version"),
    "dpkg": _lists_if("-l", "-L", "-S", "-s"),
    "tee": lambda rest: Effect.CHANGES if any(not word.startswith("-") for word in rest) else Effect.READS,
}
