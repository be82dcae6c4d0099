"""Every code block of the README and of docs/: run as it stands, or, where the page says why not, checked."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.pages import ALONE, PAGES, ROOT, WORDS, Block, blocks_of, problems_of, runnable

if TYPE_CHECKING:
    from collections.abc import Mapping

PATIENCE_S = 200
SOAKED = bool(os.environ.get("TERMARENA_SOAK"))


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix() if page.is_relative_to(ROOT) else page.name


def _is_run(block: Block) -> bool:
    return block.language in {"sh", "python"} and block.word in {None, "run"}


def _runs_something(page: Path) -> bool:
    return any(_is_run(block) for block in blocks_of(page))


RUN = [page for page in PAGES if _runs_something(page)]
SOAK = [page for page in PAGES if any(block.word == "soak" for block in blocks_of(page))]


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_a_page_says_what_is_so(page: Path) -> None:
    """Every block has a language; words of marks are known; what is not run names commands and options that exist."""
    for block in blocks_of(page):
        where = f"{_name(page)}:{block.line}"
        assert block.word in ALONE or block.language, f"{where}: a block without a language"
        assert block.word is None or block.word in WORDS, f"{where}: {block.word} means nothing"
        assert problems_of(block) == [], where
        assert runnable(block).strip() or block.word in ALONE, f"{where}: nothing of it is run"
        named = re.findall(r"tests/[\w/]+\.py", block.reason)
        assert [test for test in named if not (ROOT / test).is_file()] == [], f"{where}: no such test"
        if block.language == "json":
            json.loads(block.text)
        elif block.language == "toml":
            tomllib.loads(block.text)


def test_the_pages_are_read() -> None:
    assert {"README.md", "docs/start/first-run.md", "docs/sandbox.md"} <= {_name(page) for page in RUN}
    assert "docs/start/own-task.md" in {_name(page) for page in SOAK}


@pytest.mark.parametrize(
    ("language", "text", "told"),
    [
        ("sh", "termarena run --agnet nop", "--agnet"),
        ("sh", "cd x && termarena taks list", "taks"),
        ("sh", "FOO=1 termarena run --sample # --agnet\nmake everything", "everything"),
        ("sh", "pip install 'termarena[nothing]'", "nothing"),
        ("sh", "terminal-bench --sampel", "--sampel"),
        ("python", "from termarena.tasks import load_datasets", "load_datasets"),
    ],
)
def test_what_is_not_so_is_found(language: str, text: str, told: str) -> None:
    (problem,) = problems_of(Block(1, language, text, "checked", ""))
    assert told in problem


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ("with RUN=first, TASK=a b", "show first a b\nserve  all\nshow first/a b --RUNS\n"),
        ("without serve (it stays)", "show RUN TASK\nshow RUN/TASK --RUNS\n"),
        ("with RUN=first, TASK=t; without serve, show RUN/ (they stay)", "show first t\n"),
    ],
)
def test_a_block_is_run_with_words_in_the_place_of_others(asked: str, text: str) -> None:
    assert runnable(Block(1, "sh", "show RUN TASK\nserve \\\nall\nshow RUN/TASK --RUNS\n", "run", asked)) == text


@pytest.mark.parametrize("asked", ["with RUM=first", "without sell (no)", "as it likes", "without show RUN"])
def test_words_that_do_not_fit_a_block_are_told(asked: str) -> None:
    with pytest.raises(ValueError, match=r"is not in what is run|no line begins with|is neither"):
        runnable(Block(1, "sh", "show RUN\n", "run", asked))


def test_a_command_before_a_block_waits_for_one_that_is_run(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- before: touch early -->\n<!-- soak: with a=b; without no (never) -->\n```sh\ntouch a\nno\n```\n"
        "<!-- before: touch late -->\n```sh\ntest -e late\n```\n"
    )
    for is_soaked, made in ((False, {"early", "late"}), (True, {"b", "early", "late"})):
        folder = tmp_path / str(is_soaked)
        folder.mkdir()
        _carry_out(page, folder, {None, "soak"} if is_soaked else {None})
        assert {path.name for path in (folder / "work").iterdir()} == made


def test_a_copied_file_turns_no_block_off(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("<!-- copy: examples/typist.py -->\n```sh\nfalse\n```\n")
    copied, block = blocks_of(tmp_path / "page.md")
    assert (copied.word, copied.reason) == ("copy", "examples/typist.py")
    assert _is_run(block)


# What docs/index.md has another word for: a trial, a white agent, a dataset, a recording, an agent, the referee.
FOREIGN = re.compile(
    r"\b(?:rollout|episode|challenger|competitor|data set|screencast|purple agent|evaluator agent|leader board)s?\b",
    re.IGNORECASE,
)


def test_one_word_for_one_thing() -> None:
    commands = (ROOT / "src" / "termarena" / "cli").rglob("*.py")
    templates = (ROOT / "src" / "termarena" / "arena" / "templates").rglob("*.html")
    texts = {path: path.read_text(encoding="utf-8") for path in (*PAGES, *commands, *templates)}
    assert len(texts) > 120
    assert {str(path): found for path, text in texts.items() if (found := FOREIGN.findall(text))} == {}


OTHERS_WORDS = {"No matching distribution found", "termarena: command not found", "File too large"}
"""What pip, the shell and the C library say."""


def _quoted_messages() -> list[str]:
    """What a person who looks into the page for troubles has seen: the messages that it quotes."""
    rows = [
        line.split("|")[1] for line in (ROOT / "docs/troubleshooting.md").read_text().splitlines() if line[:1] == "|"
    ]
    quoted = [text for row in rows for text in re.findall(r"`([^`]+)`", row) if " " in text]
    return [text for text in quoted if text not in OTHERS_WORDS and "--" not in text]


@cache
def _all_that_is_said() -> str:
    sayers = [ROOT / "Makefile", *(ROOT / "src").rglob("*.py")]
    return "\n".join(path.read_text(encoding="utf-8") for path in sayers)


@pytest.mark.parametrize("message", _quoted_messages())
def test_a_quoted_message_is_one_of_ours(message: str) -> None:
    """Its constant parts stand in files that can say them; what varies is a placeholder there."""
    parts = [part.strip(" :") for part in re.split(r"…|\bN\b|127\S+|OPENAI_\w+|\bmy_agents\b|python3", message)]
    assert [part for part in parts if part not in _all_that_is_said()] == []


def _carry_out(page: Path, folder: Path, words: set[str | None]) -> None:
    """Run the page's blocks in order, in one folder, with a home of its own."""
    work = folder / "work"
    work.mkdir()
    environment = {
        **os.environ,
        "HOME": str(folder / "home"),
        "TERMARENA_HOME": str(folder / "home" / "termarena"),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "REPOSITORY": str(ROOT),
    }
    waiting: list[Block] = []
    told: str | None = None  # by the block above, if it was run
    for block in blocks_of(page):
        if block.word == "copy":
            shutil.copy(ROOT / block.reason, work)
        elif block.word == "file":
            (work / block.reason).write_text(block.text)
        elif block.word == "before":
            waiting.append(block)
        elif block.word == "shown":
            assert told is None or _not_told(block.text, told) == [], f"{_name(page)}:{block.line}\n{told}"
        elif block.language in {"sh", "python"}:
            told = None
            if block.word in words:
                for one in (*waiting, block):
                    told = _carry_out_block(one, work, environment, where=f"{_name(page)}:{one.line}")
                waiting = []


def _not_told(shown: str, told: str) -> list[str]:
    """The lines of a block that are not among those that were printed, whatever their numbers are."""
    told_lines = {_numberless(line) for line in told.splitlines()}
    return [line for line in shown.splitlines() if line.strip() and _numberless(line) not in told_lines]


def _numberless(line: str) -> str:
    return " ".join(re.sub(r"\d+(?:\.\d+)?", "N", line).split())


def test_what_a_page_shows_is_held_against_what_was_printed() -> None:
    assert _not_told("one  12.5 s\n\ntwo\n", "zero\none 3 s\n two\n") == []
    assert _not_told("one  12.5 s\nthree\n", "one 3 s\n") == ["three"]


def test_a_page_that_shows_what_is_not_printed_is_found_out(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```sh\necho is 2\n```\n<!-- shown: here -->\n```text\nis 1\n```\n")
    _carry_out(page, tmp_path, {None})
    page.write_text(page.read_text().replace("is 1", "was 1"))
    (tmp_path / "again").mkdir()
    with pytest.raises(AssertionError, match="is 2"):
        _carry_out(page, tmp_path / "again", {None})


def _carry_out_block(block: Block, work: Path, environment: Mapping[str, str], *, where: str) -> str:
    done = subprocess.run(  # noqa: S603 - our own pages
        _words(block),
        cwd=work,
        env=environment,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=PATIENCE_S if not SOAKED else 3000,
        check=False,
    )
    assert done.returncode == 0, f"{where}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done.stdout + done.stderr


def _words(block: Block) -> list[str]:
    if block.language == "python":
        return [sys.executable, "-c", runnable(block)]
    return ["bash", "-euo", "pipefail", "-c", block.reason if block.word == "before" else runnable(block)]


@pytest.mark.slow
@pytest.mark.needs("user-namespaces")
@pytest.mark.parametrize("page", RUN, ids=_name)
def test_a_page_runs_as_it_stands(page: Path, tmp_path: Path) -> None:
    _carry_out(page, tmp_path, {None, "run"})


@pytest.mark.soak
@pytest.mark.needs("user-namespaces")
@pytest.mark.parametrize("page", SOAK, ids=_name)
def test_a_page_runs_to_its_end(page: Path, tmp_path: Path) -> None:
    _carry_out(page, tmp_path, {None, "run", "soak"})
