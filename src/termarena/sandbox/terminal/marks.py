r"""How a shell tells that a command has ended, and with which status, without trusting what is on the screen.

The words between harness and shell travel on a second terminal of the sandbox, the *wire*. A stopped process holds it
open; the shell reaches it as `/proc/<holder>/fd/0`. What a process writes to a terminal's slave side only the master's
holder reads, and that is the harness: nothing in the sandbox can listen to the shell's reports.

    harness  -> shell's terminal   Ctrl-U, a line that evaluates what is below
    shell    -> wire               <secret> R                      I am ready: send the command
    harness  -> wire               a piece of the command
    shell    -> wire               <secret> L <piece>              this is what I have read; and so on with each piece
    harness  -> wire               <token>                         once every piece was read as it was sent: run it
    shell    -> its own terminal   OSC 7717;<token>;B              the output begins here
             ... eval at the top level of the shell ...
    shell    -> its own terminal   OSC 7717;<token>;E              the output ends here
    shell    -> wire               <secret> E <token> <status>     it ended like this
    shell    -> wire               <secret> P <token> <status>     I am at my prompt (bash, zsh: hooks; others: PS1)
    shell    -> its own terminal   the prompt, at its end OSC 7717;<first token>;Q

The secret is drawn when the harness attaches to a shell, the token for every command. Other processes of the sandbox
can read what is sent to the shell, so that it arrives with holes. The shell takes a token only in the text that also
evaluates the command, and is sent it only for a command without holes: every other end is told with the token before.
The marks on the shell's own terminal only say which part of the stream is the command's output; they are taken out
before anything is shown. What can be forged, by whom, is written in docs/design/terminal.md.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["MarkFilter", "Report", "ReportReader", "bootstrap", "init_script", "new_token", "pieces", "trigger"]

LINE_BYTES: Final = 3800
"""Of the 4,095 that a line of a terminal may have."""
LONGEST_REPORT_BYTES: Final = 4096
"""A piece of a command with the secret before it."""
KILL_LINE: Final = b"\x15"
ABORT_SEARCH: Final = {"bash": b"\x07"}
"""An answer to a query that nobody read may have begun a search in bash's history; in zsh this key would redraw."""

_INIT: Final = r"""
__ta_b=command __ta_d=posix
[ -z "${BASH_VERSION-}" ] || __ta_b=builtin __ta_d=bash
[ -z "${ZSH_VERSION-}" ] || __ta_b=builtin __ta_d=zsh
__ta_t=@TOKEN@ __ta_c= __ta_l= __ta_p= __ta_x= __ta_s=0
__ta_g='__ta_get; eval "$__ta_x"; __ta_end'
__ta_say() { "$__ta_b" printf '%s\n' "@SECRET@ $1" >@WIRE@/1; } 2>/dev/null
__ta_mark() { "$__ta_b" printf '\033]7717;%s;E\007' "$__ta_t" >/dev/tty; __ta_say "$1 $__ta_t $2"; } 2>/dev/null
__ta_end() { __ta_s=$? __ta_x=; __ta_mark E "$__ta_s"; __ta_hook; return "$__ta_s"; } 2>/dev/null
__ta_sane() { @SANE@; }
__ta_note() { :; }
__ta_q=$(printf '\033]7717;@TOKEN@;Q\007')
__ta_show() { case ${PS1-} in *"$__ta_q"*) ;; *) PS1=${PS1-}$1$__ta_q$2;; esac; }
__ta_get() { __ta_s=$? __ta_x= __ta_c=; __ta_sane; __ta_say R; __ta_read && __ta_take; return "$__ta_s"; } 2>/dev/null
__ta_read() {
while IFS= "$__ta_b" read -r __ta_l && __ta_say "L $__ta_l"; do
case $__ta_l in
*\\*) __ta_p=$("$__ta_b" printf '%b.' "${__ta_l#?}"); case $__ta_p in *.) __ta_c=$__ta_c${__ta_p%.};; *) return 1;; esac;;
*) __ta_c=$__ta_c${__ta_l#?};;
esac
case $__ta_l in .*) break;; esac
done
IFS= "$__ta_b" read -r __ta_l && [ "${#__ta_l}" = 32 ]
} <@WIRE@/0
__ta_take() { __ta_t=$__ta_l __ta_x=$__ta_c; __ta_note; "$__ta_b" printf '\033]7717;%s;B\007' "$__ta_t" >/dev/tty; }
case $__ta_d in
bash)
HISTCONTROL=${HISTCONTROL:+$HISTCONTROL:}ignorespace
__ta_prompt() { __ta_mark P "$?"; }
__ta_note() { builtin history -s -- "$__ta_c"; }
__ta_hook() { case ${PROMPT_COMMAND-} in __ta_prompt*) ;; *) PROMPT_COMMAND="__ta_prompt${PROMPT_COMMAND:+;$PROMPT_COMMAND}";; esac; __ta_show '\[' '\]'; }
;;
zsh)
setopt HIST_IGNORE_SPACE
PROMPT_EOL_MARK=
__ta_prompt() { __ta_mark P "$?"; }
__ta_note() { builtin print -s -r -- "$__ta_c"; }
eval '__ta_hook() { case " ${precmd_functions-} " in *" __ta_prompt "*) ;; *) precmd_functions=(__ta_prompt ${precmd_functions-});; esac; __ta_show "%{" "%}"; }'
;;
*)
__ta_prompt() { __ta_mark P "$1"; }
__ta_hook() { case ${PS1-} in *__ta_prompt*) ;; *) PS1='$(__ta_prompt "$?")'${PS1-};; esac; __ta_show "" ""; }
;;
esac
__ta_hook
__ta_say "H $__ta_d ${#__ta_i}"
__ta_i=
"""  # noqa: E501 - one word per line would be longer still
_BEGINNING: Final = b"\x1b]7717;"
_SANE_COMMAND: Final = "stty sane </dev/tty"


def new_token() -> str:
    """128 bits that nobody can guess."""
    return secrets.token_hex(16)


def init_script(holder_pid: int, *, secret: str, token: str, must_repair: bool) -> str:
    """The functions that a shell needs, to be sent on the wire after `bootstrap` was typed, with a line of one dot.

    `must_repair`: the shell itself restores the terminal's modes before each command, because the harness cannot.
    """
    script = _INIT.strip("\n")
    for name, value in {
        "SECRET": secret,
        "TOKEN": token,
        "WIRE": f"/proc/{holder_pid}/fd",
        "SANE": _SANE_COMMAND if must_repair else ":",
    }.items():
        script = script.replace(f"@{name}@", value)
    return script


def bootstrap(holder_pid: int) -> bytes:
    """The line that makes a POSIX shell at its prompt read what is sent on the wire, up to a line of one dot."""
    read = f'while IFS= \\read -r x && [ "$x" != . ]; do printf \'%s\\n\' "$x"; done </proc/{holder_pid}/fd/0'
    return KILL_LINE + f' __ta_i=$({read}); eval "$__ta_i"\n'.encode()


def trigger(dialect: str | None) -> bytes:
    """The line that makes an attached shell take a command, whatever is on its line now.

    It names the text that does all that follows: with a letter lost it does nothing that could be told as an end.
    """
    return ABORT_SEARCH.get(dialect or "", b"") + KILL_LINE + b' eval "$__ta_g"\n'


def pieces(command: str) -> Iterator[str]:
    """A command for the wire: lines of plain ASCII, everything else an octal escape; the last begins with a dot.

    No line ends within a character, so that each can be decoded by itself.
    """
    line: list[str] = []
    length = 0
    for character in command:
        escaped = _escape(character)
        if length + len(escaped) > LINE_BYTES:
            yield "+" + "".join(line)
            line, length = [], 0
        line.append(escaped)
        length += len(escaped)
    yield "." + "".join(line)


def _escape(character: str) -> str:
    if " " <= character <= "~" and character != "\\":
        return character
    return "".join(f"\\0{byte:03o}" for byte in character.encode("utf-8", "surrogateescape"))


@dataclass(frozen=True, slots=True)
class Report:
    """What the shell said on the wire."""

    kind: Literal["H", "R", "L", "E", "P"]
    """Hello, ready, a piece of a command, end of a command, at the prompt."""
    word: str = ""
    """With `H` which kind of shell it is, with `L` what was read, with `E` and `P` the token."""
    number: int = 0
    """With `H` how long the functions are that it was given, with `E` and `P` the status."""


class ReportReader:
    """Takes the wire apart; lines that do not begin with the secret are echo or somebody's noise."""

    def __init__(self, secret: str) -> None:
        """`secret` is the one given to the shell."""
        self._form = re.compile(
            rf"{secret} (?:(R)|(H) (bash|zsh|posix) ([0-9]{{1,6}})|(L) ([ -~]*)"
            r"|([EP]) ([0-9a-f]{32}) ([0-9]{1,3}))\r*"
        )
        self._partial = b""

    def feed(self, data: bytes) -> list[Report]:
        """The reports that are now complete; at most one unfinished short line is kept."""
        *lines, rest = (self._partial + data).split(b"\n")
        self._partial = rest[:LONGEST_REPORT_BYTES]
        found = (self._form.fullmatch(line.decode("ascii", "replace")) for line in lines)
        return [_report(match) for match in found if match is not None]


def _report(match: re.Match[str]) -> Report:
    if match[1]:
        return Report("R")
    if match[2]:
        return Report("H", match[3], int(match[4]))
    if match[5]:
        return Report("L", match[6])
    return Report("E" if match[7] == "E" else "P", match[8], int(match[9]))


MarkKind = Literal["B", "E", "Q"]


@dataclass(slots=True)
class MarkFilter:
    """Takes the marks of known tokens out of a stream, wherever reads cut it; other marks are a program's own words."""

    _marks: dict[bytes, MarkKind | None] = field(default_factory=dict)
    _held: bytes = b""

    def attach(self, token: str) -> None:
        """A shell was given its first token, which also stands at the end of its prompt."""
        self._marks = {_mark(token, "E"): "E", _mark(token, "Q"): "Q"}

    def expect(self, token: str) -> None:
        """A command was given its token; the last marks of the one before are still taken out."""
        kept: dict[bytes, MarkKind | None] = {mark: kind for mark, kind in self._marks.items() if kind == "Q"}
        kept.update({mark: None for mark, kind in self._marks.items() if kind == "E"})
        self._marks = {**kept, _mark(token, "B"): "B", _mark(token, "E"): "E"}

    def feed(self, data: bytes) -> Iterator[bytes | MarkKind]:
        """The stream in pieces; a kind stands where a mark of the current token was."""
        data = self._held + data
        self._held = b""
        at = 0
        while (start := data.find(_BEGINNING, at)) >= 0:
            mark = next((mark for mark in self._marks if data.startswith(mark, start)), None)
            if mark is None and self._could_become_one(data[start:]):
                break
            end = start + (len(mark) if mark else 1)
            if piece := data[at : start if mark else end]:
                yield piece
            if mark and (kind := self._marks[mark]):
                yield kind
            at = end
        last = data.rfind(b"\x1b", at)
        cut = last if last >= 0 and self._could_become_one(data[last:]) else len(data)
        self._held = data[cut:]
        if piece := data[at:cut]:
            yield piece

    def _could_become_one(self, data: bytes) -> bool:
        return any(mark.startswith(data) for mark in self._marks)

    def rest(self) -> bytes:
        """What was held back because it could have become a mark."""
        held, self._held = self._held, b""
        return held


def _mark(token: str, kind: MarkKind) -> bytes:
    return _BEGINNING + f"{token};{kind}\x07".encode()
