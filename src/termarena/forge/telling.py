"""The instruction: what must hold at the end, with every path and format, and no word about how to get there."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from termarena.core.errors import RecordingRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from termarena.forge.draft import Draft
    from termarena.forge.facts import Fact

__all__ = ["Known", "instruction", "leaks"]

GATE: Final = "instruct"
LONGEST: Final = 24 << 10
LEAKED_WORDS: Final = 4
"""So many words of the solution in a row, outside of what a file is to hold, are a leak."""


@dataclass(frozen=True, slots=True)
class Known:
    """What an instruction may count on."""

    givens: Sequence[str] = ()
    """The files of the start state."""
    descriptions: Mapping[str, str] = field(default_factory=dict)
    """Of results that can be asked for in words, the words: their content is not shown then."""


def instruction(draft: Draft, facts: Sequence[Fact], known: Known) -> str:
    """The text of `instruction.md`.

    Raises `RecordingRefused` (gate `instruct`) for one that would be too long, or would give a command away.
    """
    parts = [_opening(draft, known.givens)]
    parts += [_bullet(_told(fact, facts, known.descriptions)) for fact in facts]
    text = "\n".join(parts) + "\n"
    if len(text) > LONGEST:
        raise RecordingRefused(GATE, f"what must hold takes {len(text)} characters to say; at most {LONGEST}")
    if found := leaks(text, draft.solution):
        raise RecordingRefused(GATE, f"it would give away a command of the solution: `{found}`")
    return text


def _opening(draft: Draft, givens: Sequence[str]) -> str:
    title = draft.title.rstrip(".") or "Bring the machine into the state that is described below"
    named = ", ".join(f"`{path}`" for path in givens)
    there = f" There you find {named}." if named else ""
    place = f"Work in `{draft.workdir}`; relative paths are seen from there."
    return f"{title}.\n\n{place}{there} When you are done, all of this must hold:\n"


def _told(fact: Fact, facts: Sequence[Fact], descriptions: Mapping[str, str]) -> str:
    if fact.probe == "text" and fact.path in descriptions:
        return f"`{fact.path}` is a text file that holds {descriptions[fact.path]}."
    if fact.probe == "git_files" and len(fact.arguments) == 1 and _is_clean(fact.path, facts):
        names = _names(sorted(fact.value))
        return (
            f"In the git repository `{fact.path}` the last commit holds exactly the files {names}, as they lie there."
        )
    return _TELL[fact.probe](fact)


def _is_clean(path: str, facts: Sequence[Fact]) -> bool:
    """Whether the working tree is asked for too, and is what was committed."""
    return any(one.probe == "git_status" and one.path == path and not one.value for one in facts)


def _bullet(text: str) -> str:
    return "- " + text.replace("\n", "\n  ").replace("\n  \n", "\n\n")


def _block(text: str) -> str:
    """A fenced block that the text cannot close."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    end = "" if text.endswith("\n") else "\n"
    return f"\n\n{fence}\n{text}{end}{fence}"


def _exactly(text: str) -> str:
    if not text:
        return "is an empty file."
    last = "" if text.endswith("\n") else " (without a newline at the end)"
    return f"is a text file that holds exactly this{last}:{_block(text)}"


def _text(fact: Fact) -> str:
    return f"`{fact.path}` {_exactly(str(fact.value))}"


def _json(fact: Fact) -> str:
    value = json.dumps(fact.value, indent=2, ensure_ascii=False)
    free = "white space and the order of names do not matter"
    return f"`{fact.path}` is a JSON file with this value ({free}):{_block(value)}"


def _csv(fact: Fact) -> str:
    rows = "\n".join(",".join(_cell(cell) for cell in row) for row in fact.value)
    return f"`{fact.path}` is a CSV file, fields separated by commas, with these rows in this order:{_block(rows)}"


def _cell(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"' if re.search(r'[",\n]', cell) else cell


def _ini(fact: Fact) -> str:
    rows = [
        f"[{name}]\n" + "".join(f"{key} = {value}\n" for key, value in table.items())
        for name, table in fact.value.items()
    ]
    return f"`{fact.path}` is an INI file with these sections and values:{_block(chr(10).join(rows))}"


def _kind(fact: Fact) -> str:
    words = {"absent": "is not there any more", "folder": "is a folder", "file": "is a regular file"}
    return f"`{fact.path}` {words.get(str(fact.value), f'is a {fact.value}')}."


def _archive(fact: Fact) -> str:
    names = ", ".join(f"`{name}`" for name in sorted(fact.value))
    held = "Files in it hold what the files of these names hold."
    return f"`{fact.path}` is an archive with exactly these members: {names}. {held}"


def _columns(fact: Fact) -> str:
    tables = "; ".join(f"`{name}` ({', '.join(columns)})" for name, columns in fact.value.items())
    what = "an SQLite database with exactly these tables and views, and these columns in this order"
    return f"`{fact.path}` is {what}: {tables}."


def _rows(fact: Fact) -> str:
    where = f"In `{fact.path}` the table `{fact.arguments[1]}`"
    if not fact.value:
        return f"{where} is empty."
    rows = "\n".join("|".join("NULL" if cell is None else str(cell) for cell in row) for row in fact.value)
    return f"{where} holds exactly these rows, in any order, columns separated by `|`:{_block(rows)}"


def _indexes(fact: Fact) -> str:
    return f"In `{fact.path}` the indexes are exactly {_names(fact.value)}."


def _names(names: Sequence[Any]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "none"


def _subjects(fact: Fact) -> str:
    where = f"the branch `{fact.arguments[1]}`" if len(fact.arguments) > 1 else "the current branch"
    order = "newest first" if fact.probe == "git_subjects" else "in any order"
    listed = _block("\n".join(map(str, fact.value)))
    return f"In the git repository `{fact.path}` the commits of {where} have these subjects, {order}:{listed}"


def _git_files(fact: Fact) -> str:
    where = f"the branch `{fact.arguments[1]}`" if len(fact.arguments) > 1 else "the current branch"
    held = f"the last commit of {where} holds exactly the files {_names(sorted(fact.value))}"
    shown = "".join(f"\n\n`{name}`:{_block(content)}" for name, content in sorted(fact.value.items()))
    return f"In the git repository `{fact.path}` {held}, with these contents:{shown}"


def _merges(fact: Fact) -> str:
    told = "; ".join(f"`{subject}` of {_names(parents)}, in this order" for subject, *parents in fact.value)
    return f"In the history of `{fact.path}` these commits, and no others, are merges: {told}."


def _status(fact: Fact) -> str:
    if not fact.value:
        return f"In `{fact.path}` there is nothing to commit, and no file that git does not know."
    listed = "\n".join(map(str, fact.value))
    what = "exactly these files differ from the last commit, as git's short status tells it"
    return f"In `{fact.path}` {what}:{_block(listed)}"


def _owner(fact: Fact) -> str:
    user, group = (f"with the number {name}" if str(name).isdecimal() else f"`{name}`" for name in fact.value)
    return f"`{fact.path}` belongs to the user {user} and the group {group}."


def _user(fact: Fact) -> str:
    told = fact.value
    member = f" and is a member of {_names(told['groups'])}" if told["groups"] else ""
    place = f"the home folder `{told['home']}`, the shell `{told['shell']}` and the primary group `{told['group']}`"
    return f"There is a user `{fact.path}` who has {place}{member}."


def _group(fact: Fact) -> str:
    return f"There is a group `{fact.path}`, and exactly these are listed as its members: {_names(fact.value)}."


def _yaml(fact: Fact) -> str:
    value = json.dumps(fact.value, indent=2, ensure_ascii=False)
    return f"`{fact.path}` is a YAML file with this value, which is written as JSON here:{_block(value)}"


def _cron(fact: Fact) -> str:
    return f"`{fact.path}` is a table of cron with exactly these jobs, in any order:{_block(chr(10).join(fact.value))}"


def _serves(fact: Fact) -> str:
    status, _, body = str(fact.value).partition("\n")
    if status.startswith("HTTP "):
        page = (
            f"the status {status[5:]} and this body:{_block(body)}" if body else f"the status {status[5:]} and no body"
        )
        return (
            f"A service is running and answers an HTTP request for `/` on port {fact.path} of this machine with {page}"
        )
    said = f"says this:{_block(str(fact.value))}" if fact.value else "says nothing by itself."
    return f"A service is running, listens on TCP port {fact.path} of this machine, and {said}"


def _program(fact: Fact) -> str:
    argv, cwd = fact.arguments
    printed = (
        f"prints exactly this on standard output:{_block(fact.value['stdout'])}"
        if fact.value["stdout"]
        else "prints nothing"
    )
    return f"`{' '.join(argv)}`, run in `{cwd}`, ends with status {fact.value['status']} and {printed}"


_TELL: Final[Mapping[str, Callable[[Fact], str]]] = {
    "kind": _kind,
    "mode": lambda fact: f"`{fact.path}` has the permissions {fact.value} (octal).",
    "owner": _owner,
    "user": _user,
    "group": _group,
    "yaml_value": _yaml,
    "cron_jobs": _cron,
    "serves": _serves,
    "link_target": lambda fact: f"`{fact.path}` is a symbolic link to `{fact.value}`.",
    "digest": lambda fact: f"`{fact.path}` is a file whose SHA-256 is `{fact.value}`.",
    "text": _text,
    "json_value": _json,
    "csv_rows": _csv,
    "ini_sections": _ini,
    "archive_members": _archive,
    "compressed_text": lambda fact: f"`{fact.path}` is a gzip file. Unpacked, it {_exactly(str(fact.value))}",
    "sqlite_columns": _columns,
    "sqlite_rows": _rows,
    "sqlite_indexes": _indexes,
    "git_branch": lambda fact: f"The git repository `{fact.path}` is on the branch `{fact.value}`.",
    "git_branches": lambda fact: f"The git repository `{fact.path}` has exactly the branches {_names(fact.value)}.",
    "git_tags": lambda fact: f"The git repository `{fact.path}` has exactly the tags {_names(fact.value)}.",
    "git_subjects": _subjects,
    "git_commits": _subjects,
    "git_merges": _merges,
    "git_files": _git_files,
    "git_status": _status,
    "output_of": _program,
    "library_members": lambda fact: f"`{fact.path}` is a static library with exactly the members {_names(fact.value)}.",
    "is_program": lambda fact: f"`{fact.path}` is a compiled program that everyone may run.",
}
"""How each fact is told; a probe without a sentence here cannot be used."""


def leaks(text: str, solution: str) -> str | None:
    """A run of words of one of the solution's commands that stands in the prose; contents of files are not prose."""
    prose = re.sub(r"(?s)(`{3,})\n.*?\n\s*\1", " ", text)
    told = _words(prose)
    known = {tuple(told[at : at + LEAKED_WORDS]) for at in range(len(told))}
    for line in _commands(solution):
        words = _words(line)
        for at in range(len(words) - LEAKED_WORDS + 1):
            if tuple(words[at : at + LEAKED_WORDS]) in known and not all(word.startswith("/") for word in words[at:]):
                return " ".join(words[at : at + LEAKED_WORDS])
    return None


def _commands(solution: str) -> list[str]:
    """The lines of a script without the bodies of its here-documents, which are contents."""
    lines, ends = [], ""
    for line in solution.splitlines():
        if ends:
            ends = "" if line.strip() == ends else ends
            continue
        lines.append(line)
        opened = re.search(r"<<-?\s*\\?['\"]?(\w+)", line)
        ends = opened[1] if opened else ""
    return lines


def _words(text: str) -> list[str]:
    return [word for word in re.split(r"[\s`]+", text) if word]
