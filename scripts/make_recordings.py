"""Makes the recordings in tests/data/forge: types every session of sessions.toml into a real shell, in a sandbox.

    .venv/bin/python scripts/make_recordings.py [NAME…]

The shells, tools and their output are real; only the clock is not: it moves by about a tenth of a second for every key
and by a second or two where a person thinks, so that a recording of a minute is made in a second.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import sys
import tempfile
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from termarena.forge.casts import load_file, parse_loaded
from termarena.forge.reading.page import Page
from termarena.forge.recording import marked_shell
from termarena.sandbox import SandboxSpec
from termarena.sandbox.drivers import open_driver
from termarena.sandbox.terminal import CastWriter, read_cast
from termarena.sandbox.terminal.stream import PtyStream
from termarena.sandbox.terminal.tty import read_modes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from termarena.sandbox import Driver, PtyProcess, Sandbox
    from termarena.sandbox.terminal import Cast

FOLDER: Final = Path(__file__).parent.parent / "tests" / "data" / "forge"
READY: Final = b"\x1b]7719;ready\x07"
PATIENCE_S: Final = 60.0
ECHO_S: Final = 0.3
CANONICAL: Final = 2
RC_FOLDER: Final = "/run/rc"

# The end of each prompt is told by a mark that is taken out before anything is recorded.
_READY_RC: Final = {
    "bash": r"""
PS1='\u@\h:\w\$ '
PS1+='\[\e]7719;ready\a\]'; PS2+='\[\e]7719;ready\a\]'
""",
    "zsh": r"""
PS1=$'%n@%m %~ %# %{\e]7719;ready\a%}'; PS2+=$'%{\e]7719;ready\a%}'
""",
    "fish": r"""
function fish_greeting; end
function fish_prompt; printf '%s@sandbox %s> \e]7719;ready\a' $USER (prompt_pwd); end
""",
}
_PLAIN_MARKS: Final = r"""
PROMPT_COMMAND='printf "\e]133;D;$?\a"'
PS1='\[\e]133;A\a\]\u@\h:\w\$ \[\e]133;B\e\\\]\[\e]7719;ready\a\]'
PS0='\e]133;C\a'
"""
_NO_PASTE: Final = "bind 'set enable-bracketed-paste off'\n"


@dataclass
class Clock:
    """A clock that people and programs move, not time."""

    now_s: float = 0.0
    chance: random.Random = field(default_factory=lambda: random.Random(7))  # noqa: S311 - typing, not secrets

    def __call__(self) -> float:
        """Now, in seconds."""
        return self.now_s

    def pass_s(self, least: float, most: float) -> None:
        """Let some time pass."""
        self.now_s += self.chance.uniform(least, most)


class Typist:
    """Types into a shell, and knows when it waits for the next line."""

    def __init__(self, pty: PtyProcess, cast: CastWriter, clock: Clock) -> None:
        """Begins to read what the shell shows."""
        self._pty, self._cast, self._clock = pty, cast, clock
        self._news = asyncio.Event()
        self._seen = b""
        self._held = b""
        self.stream = PtyStream(pty, self._take, on_end=self._news.set)

    def _take(self, data: bytes) -> None:
        self._seen += data
        self._clock.pass_s(0.001, 0.004)
        shown = self._held + data
        last = shown.rfind(b"\x1b")
        cut = last if last >= 0 and READY.startswith(shown[last:]) and shown[last:] != READY else len(shown)
        self._held = shown[cut:]
        if clean := shown[:cut].replace(READY, b""):
            self._cast.output(clean)
        self._news.set()

    async def _hear(self, limit_s: float) -> bool:
        self._news.clear()
        try:
            await asyncio.wait_for(self._news.wait(), limit_s)
        except TimeoutError:
            return False
        return True

    async def until(self, sign: bytes) -> None:
        """Until the sign was shown and a line editor waits for keys."""
        async with asyncio.timeout(PATIENCE_S):
            while sign not in self._seen or not self._is_editing():
                await self._hear(0.05)
        self._seen = b""

    def _is_editing(self) -> bool:
        modes = read_modes(self._pty)
        return modes is None or not modes[3] & CANONICAL

    async def press(self, keys: str) -> None:
        """Key by key, each after the echo of the one before."""
        for key in re.findall(r"\x1b\[.|[\s\S]", keys):
            self._clock.pass_s(0.06, 0.2)
            self.stream.write(key.encode())
            await self._hear(ECHO_S)

    async def enter(self) -> None:
        """The Enter key, after a moment."""
        self._clock.pass_s(0.15, 0.4)
        self._seen = b""
        self.stream.write(b"\r")

    async def pause(self) -> None:
        """Think, when nothing more is shown."""
        while await self._hear(0.02):
            pass
        self._clock.pass_s(0.6, 1.8)


async def type_session(typist: Typist, session: dict[str, Any]) -> None:
    """All lines of a session, then the end of the shell."""
    await typist.until(READY)
    for line in session["lines"]:
        step = line if isinstance(line, dict) else {"text": line}
        await typist.pause()
        await _type_step(typist, step, next_sign=_sign_after(session["lines"], line))
    await typist.pause()
    await typist.press("exit")
    await typist.enter()


def _sign_after(lines: Sequence[Any], line: object) -> bytes:
    following = lines[lines.index(line) + 1 :]
    first = following[0] if following else ""
    return first["at"].encode() if isinstance(first, dict) and "at" in first else READY


async def _type_step(typist: Typist, step: dict[str, Any], *, next_sign: bytes) -> None:
    *first, last = step.get("keys", step["text"]).split("\n")
    for part in first:
        await typist.press(part)
        await typist.enter()
        await typist.until(READY)
    await typist.press(last)
    await typist.enter()
    if then := step.get("then"):
        await typist.until(b"\x1b[?1049h")
        await typist.pause()
        typist.stream.write(then.encode())
    await typist.until(next_sign)


def start_up(session: dict[str, Any]) -> str:
    """The shell's own start-up file."""
    text = _READY_RC[session["shell"]]
    if session["evidence"] == "plain-marks":
        text = _READY_RC["bash"] + _PLAIN_MARKS
    if session["evidence"] == "prompt":
        text += _NO_PASTE
    return text


async def prepare_shell(box: Sandbox, session: dict[str, Any]) -> tuple[tuple[str, ...], dict[str, str]]:
    """Write the shell's files; the words and variables that start it."""
    shell, own = session["shell"], start_up(session)
    program = f"/usr/bin/{shell}"
    homes = {"bash": "/root/.bashrc", "zsh": "/root/.zshrc", "fish": "/root/.config/fish/config.fish"}
    await box.write(homes[shell], own.encode())
    if session["evidence"] != "marks":
        return (program, "-i"), {}
    start = marked_shell(program, RC_FOLDER)
    for name, content in start.files.items():
        await box.write(f"{RC_FOLDER}/{name}", content.encode())
    return start.argv, dict(start.env)


async def record(driver: Driver, session: dict[str, Any], target: Path) -> None:
    """One session, in a sandbox of its own."""
    clock = Clock(chance=random.Random(session["name"]))  # noqa: S311 - as above
    version: Literal[2, 3] = 3 if session["form"] == "3" else 2
    cols, rows = session.get("cols", 100), 30
    env = {"SHELL": f"/usr/bin/{session['shell']}", "TERM": "xterm-256color"}
    cast = CastWriter(target, version=version, env=env, clock=clock)
    async with driver.start(SandboxSpec()) as box:
        argv, own = await prepare_shell(box, session)
        await box.exec(["/bin/mkdir", "-p", "/app"])
        pty = await box.open_pty(argv, cols=cols, rows=rows, cwd="/app", env={**own, "TERM": env["TERM"]})
        cast.begin(cols, rows)
        typist = Typist(pty, cast, clock)
        try:
            await type_session(typist, session)
            ended = await asyncio.wait_for(pty.wait(), PATIENCE_S)
        finally:
            typist.stream.close()
            pty.close()
        cast.close(ended.exit_status)


def finish(made: Path, session: dict[str, Any]) -> None:
    """Give the recording its title, a fixed date and its final form."""
    cast = read_cast(made)
    name = FOLDER / session["name"]
    header = {**cast.header, "timestamp": 1_700_000_000, **({"title": session["title"]} if session["title"] else {})}
    if session["form"] == "1":
        _write_version_1(name.with_suffix(".json"), cast, header)
    elif session["form"] == "typescript":
        _write_typescript(name.with_suffix(".typescript"), cast)
    elif session["form"] == "txt":
        _write_text(name.with_suffix(".txt"), made)
    else:
        body = made.read_text().partition("\n")[2]
        name.with_suffix(".cast").write_text(json.dumps(header) + "\n" + body)


def _write_version_1(path: Path, cast: Cast, header: dict[str, Any]) -> None:
    shown = [(event.at_s, event.text) for event in cast.events if event.code == "o"]
    before = [0.0, *(at for at, _ in shown)]
    frames = [[round(at - last, 6), text] for last, (at, text) in zip(before, shown, strict=False)]
    path.write_text(json.dumps({**header, "version": 1, "duration": shown[-1][0], "stdout": frames}, indent=1) + "\n")


def _write_typescript(path: Path, cast: Cast) -> None:
    fields = f'TERM="xterm-256color" TTY="/dev/pts/0" COLUMNS="{cast.cols}" LINES="{cast.rows}"'
    content, timing, last = b"", "", 0.0
    for event in cast.events:
        piece = event.text.encode()
        content += piece
        timing += f"{event.at_s - last:.6f} {len(piece)}\n"
        last = event.at_s
    begin, end = (f"Script {word} on 2023-11-14 22:13:20+00:00" for word in ("started", "done"))
    path.write_bytes(f"{begin} [{fields}]\n".encode() + content + f'\n{end} [COMMAND_EXIT_CODE="0"]\n'.encode())
    path.with_name(path.name + ".timing").write_text(timing)


def _write_text(path: Path, made: Path) -> None:
    recording = parse_loaded(load_file(made))
    with Page(recording.cols, recording.rows) as page:
        for event in recording.events:
            page.feed(event.text.encode())
        path.write_text(page.everything().rstrip() + "\n")


async def main(names: Sequence[str]) -> None:
    """The sessions that are named, or all."""
    sessions = tomllib.loads((FOLDER / "sessions.toml").read_text())["session"]
    with tempfile.TemporaryDirectory() as folder:
        driver = open_driver("namespace", home=Path(folder), on_log=lambda _: None)
        try:
            for session in sessions:
                if not names or session["name"] in names:
                    sys.stderr.write(f"{session['name']}\n")
                    made = Path(folder) / f"{session['name']}.cast"
                    await record(driver, session, made)
                    finish(made, session)
        finally:
            await driver.aclose()


if __name__ == "__main__":
    os.umask(0o022)
    asyncio.run(main(sys.argv[1:]))
