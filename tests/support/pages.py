"""Code blocks of the documentation: what each page shows, and what is to be done with it.

A comment above a block, `<!-- WORD: REASON -->`, says what a test does with it:

    checked   it is not run, for the reason: commands and options, or imports and names, are held against the real ones
    run       run after all, `with RUN=first, TASK=hello-world` in the place of such words, `without termarena serve
              (the reason)`: lines that begin so are only checked; both parts, with a semicolon between, or one
    soak      run by `make soak` only; otherwise checked. The reason may be words as for `run`
    file      it is the content of a file of this name, which later blocks use
    shown     it is what the block above prints, or lines of it; numbers and the width of gaps may differ

Without one a block of `sh` or `python` is run. Two comments stand alone: `<!-- copy: PATH -->` puts a file of the
repository into the folder, `<!-- before: COMMAND -->` does what a reader has done before the next block, if that is run
(`$REPOSITORY` is ours).
"""

from __future__ import annotations

import ast
import re
import shlex
import tomllib
from dataclasses import dataclass
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer import BadParameter
from typer.main import get_command

from elizaos_terminal_bench.cli import parser as terminal_bench_parser
from termarena.cli.main import app

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ALONE", "PAGES", "ROOT", "WORDS", "Block", "blocks_of", "problems_of", "runnable"]

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "examples" / "README.md", *(ROOT / "docs").rglob("*.md")]
)
ALONE = {"copy", "before"}
WORDS = {"checked", "soak", "file", "run", "shown"} | ALONE

_BLOCK = re.compile(
    r"^(?P<set_in> *)(?:<!-- (?P<word>(?!copy:|before:)\w+): (?P<reason>[^\n]+?) -->\n(?P=set_in))?"
    r"(?P<fence>`{3,})(?P<language>[^\n]*)\n(?P<text>.*?)^(?P=set_in)(?P=fence)$"
    r"|^<!-- (?P<alone>copy|before): (?P<said>[^\n]+?) -->$",
    re.MULTILINE | re.DOTALL,
)
_RUN = re.compile(r"(?:with (?P<given>[^;]+))?(?:; )?(?:without (?P<left>[^(]+) \([^)]+\))?")


@dataclass(frozen=True)
class Block:
    """A block of a page; `word` is None for one without a comment, one of `ALONE` for a comment without a block."""

    line: int
    language: str
    text: str
    word: str | None
    reason: str


def blocks_of(page: Path) -> list[Block]:
    """Every block of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [_block(found, 1 + text.count("\n", 0, found.start())) for found in _BLOCK.finditer(text)]


def _block(found: re.Match[str], line: int) -> Block:
    if found["alone"]:
        return Block(line, "", "", found["alone"], found["said"])
    lines = [shown.removeprefix(found["set_in"]) for shown in found["text"].splitlines(keepends=True)]
    return Block(line, found["language"], "".join(lines), found["word"], found["reason"] or "")


def runnable(block: Block) -> str:
    """The text of a block as it is run. Raises ValueError for a comment that cannot be read or does not fit it."""
    asked = _RUN.fullmatch(block.reason) if block.word in {"run", "soak"} else None
    if asked is None and block.word != "run":
        return block.text
    if asked is None:
        raise ValueError(f"{block.reason!r} is neither `with NAME=VALUE, …` nor `without COMMAND, … (REASON)`")
    lines = block.text.replace("\\\n", " ").splitlines(keepends=True)
    for start in asked["left"].split(", ") if asked["left"] else []:
        kept = [line for line in lines if not line.startswith(start)]
        if len(kept) == len(lines):
            raise ValueError(f"no line begins with {start!r}")
        lines = kept
    text = "".join(lines)
    for pair in asked["given"].split(", ") if asked["given"] else []:
        name, _, value = pair.partition("=")
        parts = re.split(rf"(?<!\w){re.escape(name)}(?!\w)", text)
        if len(parts) == 1:
            raise ValueError(f"{name!r} is not in what is run")
        text = value.join(parts)
    return text


def problems_of(block: Block) -> list[str]:
    """What the block says that is not so: commands, options, make's targets, extras, imports. Nothing is run."""
    if block.word == "before":
        return [problem for command in _commands(block.reason) for problem in _problems_of_command(command)]
    if block.language == "sh":
        return [problem for command in _commands(block.text) for problem in _problems_of_command(command)]
    if block.language == "python":
        return list(_problems_of_code(block.text))
    return []


def _commands(text: str) -> Iterator[list[str]]:
    """The simple commands of a script, as words; assignments before one are left out."""
    for line in text.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|;&")
        lexer.whitespace_split, lexer.commenters = True, "#"
        words: list[str] = []
        for word in [*lexer, ";"]:
            if not set(word) <= set("|;&"):
                words.append(word)
                continue
            while words and re.match(r"\w+=", words[0]):
                del words[0]
            if words:
                yield words
            words = []


def _problems_of_command(words: list[str]) -> Iterator[str]:
    program, arguments = words[0].rsplit("/", 1)[-1], words[1:]
    if program == "termarena":
        yield from _problems_of_termarena(arguments)
    elif program == "terminal-bench":
        unknown = terminal_bench_parser().parse_known_args(arguments)[1]
        yield from (f"terminal-bench has no {word}" for word in unknown)
    elif program == "make":
        rules = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        yield from (f"make has no target {word}" for word in arguments if "=" not in word and word not in rules)
    elif program.startswith("pip"):
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        named = {name for word in arguments for found in re.findall(r"\[(.+)\]", word) for name in found.split(",")}
        yield from (f"there is no extra {name}" for name in named - set(extras))


def _problems_of_termarena(arguments: list[str]) -> Iterator[str]:
    """Parse as the program itself would, down to the command that would be run."""
    command: Any = get_command(app)
    path, rest = "termarena", [*takewhile(lambda word: not re.fullmatch(r"\d?>.*", word), arguments)]
    try:
        while True:
            context = command.make_context(path, list(rest))
            if not hasattr(command, "commands") or not (left := [*context._protected_args, *context.args]):  # noqa: SLF001 - Click's own way
                return
            name, command, rest = command.resolve_command(context, left)
            path = f"{path} {name}"
    except BadParameter as error:
        if "does not exist" not in error.message:  # a file that the reader has
            yield f"{path} {shlex.join(rest)}: {error.message}"
    except Exception as error:  # noqa: BLE001 - Typer keeps the classes of its usage errors private
        yield f"{path} {shlex.join(rest)}: {error}"


def _problems_of_code(text: str) -> Iterator[str]:
    tree = compile(text, "page", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(("termarena", "elizaos_terminal_bench")):
            module = import_module(node.module or "")
            yield from (f"{node.module} has no {n.name}" for n in node.names if not hasattr(module, n.name))
