"""How a shell is started so that it marks its own prompts, commands and statuses while it is recorded."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ShellStart", "marked_shell"]

_HERE: Final = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class ShellStart:
    """The words and variables that start a shell, and the files, by name, that must be in its folder before."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    is_marked: bool = True


def marked_shell(program: str, folder: str, *, zdotdir: str | None = None) -> ShellStart:
    """Start `program` with marks, its own start-up files first; a shell we cannot teach is started as it is.

    `folder` is where the files will be, as the shell sees it; `zdotdir` is where zsh's start-up files are, if not at
    home.
    """
    name = PurePosixPath(program).name
    if name == "bash":
        return _bash(program, folder)
    if name == "zsh":
        return _zsh(program, folder, zdotdir)
    if name == "fish":
        marks = shlex.quote(f"{folder}/marks.fish")
        return ShellStart((program, "--interactive", f"--init-command=source {marks}"), files=_files("marks.fish"))
    return ShellStart((program, "-i"), is_marked=False)


def _bash(program: str, folder: str) -> ShellStart:
    marks = shlex.quote(f"{folder}/marks.bash")
    start_up = f"[ ! -r ~/.bashrc ] || . ~/.bashrc\n. {marks}\n"
    files = {"bashrc": start_up, **_files("marks.bash")}
    return ShellStart((program, "--rcfile", f"{folder}/bashrc", "-i"), files=files)


def _zsh(program: str, folder: str, zdotdir: str | None) -> ShellStart:
    """zsh reads its files from ZDOTDIR: ours are there, and each reads the user's first."""
    ours, marks = shlex.quote(folder), shlex.quote(f"{folder}/marks.zsh")
    own = "$HOME" if zdotdir is None else shlex.quote(zdotdir)
    back = "unset ZDOTDIR" if zdotdir is None else f"ZDOTDIR={own}"
    environment = f"{back}\n[[ ! -r {own}/.zshenv ]] || source {own}/.zshenv\nZDOTDIR={ours}\n"
    start_up = f"{back}\n[[ ! -r {own}/.zshrc ]] || source {own}/.zshrc\nsource {marks}\n"
    files = {".zshenv": environment, ".zshrc": start_up, **_files("marks.zsh")}
    return ShellStart((program, "-i"), env={"ZDOTDIR": folder}, files=files)


def _files(name: str) -> dict[str, str]:
    return {name: (_HERE / name).read_text(encoding="utf-8")}
