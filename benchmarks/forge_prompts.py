"""Commands recovered behind popular prompts: real shells, typed into as people type, read back.

Usage: python benchmarks/forge_prompts.py [--style NAME] [--json]

Each style is a prompt as a popular theme draws it. Twelve commands are typed key by key, with pauses of 20 to 60 ms,
into a real bash, zsh or fish in a folder of its own; the shell runs them. Every session is read three ways: as it was
recorded, with bracketed paste switched off, and as the text alone that a server would give away. A command counts if it
is found word for word and in its place. Prints a table and one line of JSON; exits 1 under nine in ten, and 2 where a
shell is missing.
"""

from __future__ import annotations

import argparse
import codecs
import fcntl
import json
import os
import pty
import random
import select
import shutil
import signal
import struct
import sys
import tempfile
import termios
import time
from concurrent.futures import ProcessPoolExecutor
from difflib import SequenceMatcher
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from termarena.core.errors import MissingExtra
from termarena.forge.reading import read_bytes

COLS, ROWS = 100, 24
WANTED = 0.9
TYPED = (
    "mkdir -p src/lib",
    "cd src",
    "echo 'hello world' > lib/a.txt",
    "cat lib/a.txt",
    "grep -n world lib/*.txt | wc -l",
    "git init -q . && git add -A",
    "ls nothere",
    "git commit -qm 'first one'",
    "git log --oneline | cat",
    "cd ..",
    "for i in 1 2 3; do echo $i; done",
    "tar czf src.tar.gz src && ls -l src.tar.gz",
)
FISH_TYPED = (*(text for text in TYPED if not text.startswith("for")), "for i in 1 2 3; echo $i; end")
_BRANCH = '$(b=$(git symbolic-ref --short HEAD 2>/dev/null) && echo " ($b)")'
_STATE = '$(b=$(git symbolic-ref --short HEAD 2>/dev/null) && n=$(git status --porcelain | wc -l) && echo " [$b …$n]")'
_ZSH_BRANCH = '$(b=$(git symbolic-ref --short HEAD 2>/dev/null) && echo "git:($b) ✗ ")'
_SIGN = "\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}"
BASH = {
    "debian": r"\[\e[32m\]\u@\h\[\e[0m\]:\w\$ ",
    "redhat": r"[\u@\h \W]\$ ",
    "root": r"root@box:\w# ",
    "venv": r"(venv) \u@\h:\w\$ ",
    "conda": r"(base) \u@\h:\w\$ ",
    "msys": rf"\n\u@\h MINGW64 \w{_BRANCH}\n$ ",
    "branch": rf"\w{_BRANCH} \$ ",
    "plain": "$ ",
    "kali": r"\n┌──(\u㉿\h)-[\w]\n└─\$ ",
    "bash-git-prompt": rf"✔ \t [\h] \W{_STATE} $ ",
    "powerline": " \\u \ue0b0 \\w \ue0b0 ",
    "lambda": r"λ \W → ",
    "bash alone": r"\s-\v\$ ",
    "time": r"[\t] \u:\W\$ ",
    "arrow": r"\w > ",
    "demo-magic": r"➜ \W ",
}
ZSH = {
    "robbyrussell": f"%B%F{{green}}➜ %f%b %F{{cyan}}%c%f {_ZSH_BRANCH}",
    "agnoster": "%K{black} %n@%m %K{blue}\ue0b0 %~ %k\ue0b0 ",
    "pure": f"\n%F{{blue}}%~%f\n%F{{magenta}}{_SIGN}%f ",
    "starship": f"\n%F{{cyan}}%1~%f on \ue0a0 main [!?]\n%F{{green}}{_SIGN}%f ",
    "zsh alone": "%m%# ",
    "macOS": "%n@%m %1~ %# ",
    "powerlevel10k": f"\uf179 \uf015 %~ {_SIGN} ",
    "bira": "╭─%n@%m %~\n╰─$ ",
    "ys": "\n%F{blue}#%f %n @ %m in %~ [%*] \n%F{red}$ %f",
}
FISH = {"fish alone": "", "fish arrow": f"function fish_prompt; printf '%s {_SIGN} ' (prompt_pwd); end"}


class Style(NamedTuple):
    """A shell with a prompt."""

    name: str
    shell: str
    prompt: str
    has_paste: bool = True

    @property
    def typed(self) -> tuple[str, ...]:
        """The commands, as its shell understands them."""
        return FISH_TYPED if self.shell == "fish" else TYPED


def styles() -> list[Style]:
    """All of them; fish cannot be told to leave bracketed paste alone."""
    both = [("bash", BASH), ("zsh", ZSH)]
    made = [Style(n, shell, p, on) for shell, table in both for n, p in table.items() for on in (True, False)]
    return made + [Style(name, "fish", prompt) for name, prompt in FISH.items()]


def record(style: Style, folder: Path) -> bytes:
    """The session as an asciicast."""
    words, env = _start(style, folder)
    (folder / "work").mkdir()
    process, terminal = pty.fork()
    if not process:
        os.chdir(folder / "work")
        os.execvpe(words[0], words, env)  # noqa: S606 - a shell is what is measured
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLS, 0, 0))
    events: list[tuple[float, bytes]] = []
    chance, began = random.Random(style.name), time.monotonic()  # noqa: S311 - pauses, not secrets
    _listen(terminal, events, began, 0.8)
    for text in (*style.typed, "exit"):
        for key in text:
            os.write(terminal, key.encode())
            _listen(terminal, events, began, chance.uniform(0.02, 0.06), most_s=0.06)
        os.write(terminal, b"\r")
        _listen(terminal, events, began, 0.35)
    os.kill(process, signal.SIGHUP)
    os.waitpid(process, 0)
    os.close(terminal)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    header = {"version": 2, "width": COLS, "height": ROWS, "env": {"SHELL": f"/bin/{style.shell}"}}
    lines = [json.dumps(header), *(json.dumps([at, "o", decoder.decode(piece)]) for at, piece in events)]
    return "\n".join(lines).encode()


def _listen(
    terminal: int, events: list[tuple[float, bytes]], began: float, quiet_s: float, most_s: float = 5.0
) -> None:
    """Take down what comes until nothing has for a while; what a shell asks its terminal is answered."""
    last, end = time.monotonic(), time.monotonic() + most_s
    while (now := time.monotonic()) < end and now - last < quiet_s:
        if not select.select([terminal], [], [], 0.02)[0]:
            continue
        try:
            piece = os.read(terminal, 1 << 16)
        except OSError:  # the shell has ended
            return
        events.append((round(time.monotonic() - began, 4), piece))
        last = time.monotonic()
        for asked, answer in ((b"\x1b[c", b"\x1b[?62;c"), (b"\x1b[0c", b"\x1b[?62;c"), (b"\x1b[6n", b"\x1b[1;1R")):
            if asked in piece:
                os.write(terminal, answer)


def _start(style: Style, folder: Path) -> tuple[list[str], dict[str, str]]:
    env = dict.fromkeys(("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"), "me")
    env |= dict.fromkeys(("GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"), "me@example.com")
    env |= {"HOME": str(folder), "ZDOTDIR": str(folder), "PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1"}
    env |= {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8", "USER": "me", "INPUTRC": str(folder / "inputrc")}
    if style.shell == "bash":
        (folder / "inputrc").write_text(f"set enable-bracketed-paste {'on' if style.has_paste else 'off'}\n")
        (folder / "bashrc").write_text("PS1='" + style.prompt + "'\n")
        return ["bash", "--rcfile", str(folder / "bashrc"), "-i"], env
    if style.shell == "zsh":
        off = "" if style.has_paste else "unset zle_bracketed_paste\n"
        (folder / ".zshrc").write_text(f"setopt PROMPT_SUBST\nunsetopt BEEP\nPROMPT='{style.prompt}'\n{off}")
        return ["zsh", "-i"], env
    (folder / ".config" / "fish").mkdir(parents=True)
    (folder / ".config" / "fish" / "config.fish").write_text(f"set -g fish_greeting\n{style.prompt}\n")
    return ["fish", "-i"], env


class Found(NamedTuple):
    """How many commands were found, and how many lines were taken for one that are none."""

    right: int
    wrong: int
    typed: int


def compare(style: Style, raw: bytes, source: str) -> Found:
    """What reading makes of it, beside what was typed."""
    found = [command.text for command in read_bytes(raw, source=source).commands if command.text != "exit"]
    matched = SequenceMatcher(None, style.typed, found, autojunk=False).get_matching_blocks()
    right = sum(block.size for block in matched)
    return Found(right, len(found) - right, len(style.typed))


def main() -> int:
    """Record, read, tell, judge."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--style", help="one only")
    parser.add_argument("--json", action="store_true", help="only the line of JSON")
    given = parser.parse_args()
    if missing := [name for name in ("bash", "zsh", "fish", "git") if shutil.which(name) is None]:
        print(f"not here: {', '.join(missing)}", file=sys.stderr)
        return 2
    chosen = [style for style in styles() if given.style in (None, style.name)]
    totals: dict[str, list[Found]] = {}
    with tempfile.TemporaryDirectory() as home, ProcessPoolExecutor(8, mp_context=get_context("spawn")) as pool:
        folders = [Path(home) / str(number) for number in range(len(chosen))]
        for folder in folders:
            folder.mkdir()
        for style, raw in zip(chosen, pool.map(record, chosen, folders), strict=True):
            try:
                text = read_bytes(raw, source="a.cast").text.encode()
            except MissingExtra as error:
                print(error.message, file=sys.stderr)
                return 2
            ways = {"paste" if style.has_paste else "keys": compare(style, raw, "a.cast")}
            ways["text"] = compare(style, text, "a.txt")
            for way, found in ways.items():
                totals.setdefault(way, []).append(found)
            if not given.json:
                shown = "  ".join(f"{way} {found.right}/{found.typed} (+{found.wrong})" for way, found in ways.items())
                print(f"{style.shell:5} {style.name:16} {shown}")
    figures = {
        way: {
            "recall": round(sum(one.right for one in found) / sum(one.typed for one in found), 3),
            "typed": sum(one.typed for one in found),
            "wrong": sum(one.wrong for one in found),
        }
        for way, found in totals.items()
    }
    print(json.dumps({"styles": len({style.name for style in chosen}), **figures}))
    return 0 if all(one["recall"] >= WANTED for one in figures.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
