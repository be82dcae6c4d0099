"""Stage 6: nothing of the solution, the tests or the answers is in reach before the tests run."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import stat
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from termarena.proof.evidence import Evidence, Frozen
from termarena.proof.exported import Buried, read_export
from termarena.proof.spoiled import asked_for
from termarena.shell.statements import Script

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from termarena.proof.stand import Stand
    from termarena.sandbox import Sandbox
    from termarena.tasks.model import Task

__all__ = ["Leak", "Leaks", "buried_in", "prove_no_leaks"]

SMALLEST_BYTES: Final = 24
"""A smaller file may be the same by chance, unless its name says what it is."""
LEAST_BYTES: Final = 4
_TELLING: Final = re.compile(r"(?i)expected|truth|answer|golden|solution|oracle|reference")
FIND_S: Final = 60.0
LARGEST_ANSWER_BYTES: Final = 1 << 20
MOST_BURIED: Final = 50_000
LEAST_COMMAND: Final = 18
"""Characters of a command that an instruction does not hold by chance."""
GIVEN_AWAY: Final = 0.6
"""The share of the solution's commands from which on an instruction is a recipe."""
# $@: folders that do not belong to the system. Files of other packages are told apart by nothing, so /usr is left out.
_DIGESTS: Final = (
    'find "$@" -xdev -type f -size -1025k -exec sha256sum {} + 2>/dev/null; '
    "ls -d /tests /solution /oracle 2>/dev/null; true"
)
PLACES: Final = ("/app", "/home", "/root", "/opt", "/srv", "/mnt", "/media", "/data", "/workspace", "/tmp", "/var/tmp")  # noqa: S108 - inside
TAKEN: Final = ("/tests", "/solution", "/oracle")


class Leak(Frozen):
    """One thing that an agent could find."""

    kind: str
    """`solution`, `tests`, `answer` or `instruction`."""
    where: str
    what: str


class Leaks(Frozen):
    """What an agent could find before the tests run."""

    files: int
    """That were looked at in the start state."""
    layers: int = 0
    """Of its image that were looked through; 0 where it has none, or the driver does not have them."""
    unread: tuple[str, ...] = ()
    """What of the image was not looked at, and why: nothing is known of it."""
    leaks: tuple[Leak, ...] = ()


async def prove_no_leaks(stand: Stand, solved: Evidence | None) -> Leaks:
    """Look through the start state as the agent finds it, unless that was done before; `solved` tells what the answers
    are. Where a part could not be read it is looked through again the next time. Raises what making the start state
    raises."""
    known = stand.ledger.note("leaks")
    if known is not None:
        return Leaks.model_validate(known)
    found = await _look(stand, solved)
    if not found.unread:
        stand.ledger.add_note("leaks", found.model_dump(mode="json"))
    return found


async def _look(stand: Stand, solved: Evidence | None) -> Leaks:
    task = stand.task
    hidden = await asyncio.to_thread(_hidden, task)
    async with stand.start_state() as box:
        found = await _digests(box, task)
    layers = await stand.image_layers()
    buried = await asyncio.to_thread(buried_in, layers, _folders(task))
    exported = await stand.exported_image(
        partial(read_export, below=_folders(task), folders=TAKEN, sizes=range(LEAST_BYTES, LARGEST_ANSWER_BYTES + 1))
    )
    answers = await _answers(stand, solved) if solved is not None else {}
    below = buried.files | exported.files
    leaks = [*_matching(found, hidden | answers), *_buried(below, hidden | answers, shown=found), *_named(task)]
    return Leaks(
        files=len(found),
        layers=buried.layers + exported.layers,
        unread=(*buried.unread, *exported.unread),
        leaks=tuple(dict.fromkeys(leaks)),
    )


def buried_in(layers: Sequence[Path], folders: Sequence[str]) -> Buried:
    """Path and SHA-256 of every small file below these folders in any layer, also where a later one hides it; of the
    places of the grading themselves the path alone. `unread` names what could not be read."""
    found = Buried(layers=len(layers))
    for layer in layers:
        found.files |= {(taken, ""): None for taken in TAKEN if _is_own_folder(layer, taken)}
        for top in (*folders, *TAKEN):
            if _is_own_folder(layer, top):
                _walk(layer, layer / top.lstrip("/"), found)
    return found


def _walk(layer: Path, top: Path, found: Buried) -> None:
    def untold(error: OSError) -> None:
        found.leave_out(_within(layer, Path(error.filename)), error.strerror or "unreadable")

    for folder, _, names in os.walk(top, onerror=untold):
        for path in (Path(folder, name) for name in names):
            if len(found.files) >= MOST_BURIED:
                found.leave_out("layers of the image", f"more than {MOST_BURIED:,} files: the rest")
                return
            try:
                digest = _digest(path)
            except OSError as error:
                untold(error)
            else:
                found.files |= {(_within(layer, path), digest): None} if digest is not None else {}


def _within(layer: Path, path: Path) -> str:
    return f"/{path.relative_to(layer)}"


def _is_own_folder(layer: Path, path: str) -> bool:
    """Whether a folder of the layer is there, on whose way no link leads out of the layer."""
    at = layer
    for part in Path(path.lstrip("/")).parts:
        at /= part
        if part == ".." or at.is_symlink() or not at.is_dir():
            return False
    return True


def _digest(path: Path) -> str | None:
    """Of a small regular file; None of anything else. Raises `OSError`."""
    about = path.lstat()
    if not stat.S_ISREG(about.st_mode) or not LEAST_BYTES <= about.st_size <= LARGEST_ANSWER_BYTES:
        return None
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _buried(
    buried: Iterable[tuple[str, str]], hidden: Mapping[str, Secret], *, shown: Mapping[str, str]
) -> Iterator[Leak]:
    """What is only in a layer: the agent does not see it, whoever has the image does."""
    for path, digest in buried:
        if path in TAKEN and path not in shown:
            kind = "tests" if path == "/tests" else "solution"
            yield Leak(kind=kind, where=path, what="is in a layer of the image")
        elif digest in hidden and shown.get(path) != digest and hidden[digest].is_known_by(path):
            secret = hidden[digest]
            yield Leak(kind=secret.kind, where=path, what=f"is in a layer of the image, the same as {secret.name}")


class Secret(NamedTuple):
    """A file that an agent must not see."""

    kind: str
    name: str
    size_bytes: int

    def is_known_by(self, path: str) -> bool:
        """Whether a file of the same content at this path is no chance."""
        return self.size_bytes >= SMALLEST_BYTES or _TELLING.search(path.rpartition("/")[2]) is not None


def _hidden(task: Task) -> dict[str, Secret]:
    """By digest, every file that an agent must not see, but for tests' files that it is given anyway."""
    given = {file.sha256() for file in task.environment.context if file.kind == "file" and _is_given(file.path)}
    trees = [
        ("solution", task.solution.files if task.solution else ()),
        ("tests", task.tests.files if task.tests else ()),
    ]
    return {
        digest: Secret(kind, file.path, file.size_bytes)
        for kind, files in trees
        for file in files
        if file.kind == "file"
        and file.size_bytes >= LEAST_BYTES
        and not ((digest := file.sha256()) in given and kind == "tests")
    }


def _is_given(path: str) -> bool:
    """Whether a file of the build context is there for the agent; one that is called a solution is not."""
    return not re.search(r"(?i)solution|solve|expected|answer|\btests?/", path)


async def _digests(box: Sandbox, task: Task) -> dict[str, str]:
    """Path → SHA-256 of every small file outside the system's folders."""
    words = ["/bin/sh", "-c", _DIGESTS, "sh", *_folders(task)]
    done = await box.exec(words, user="root", cwd="/", timeout_s=FIND_S)
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    found = {line[66:]: line[:64] for line in lines if len(line) > LEAST_COMMAND and line[64:66] == "  "}
    return found | {line: "" for line in lines if line in TAKEN}


def _folders(task: Task) -> list[str]:
    """Those that do not belong to the system."""
    return list(dict.fromkeys((task.environment.workdir or "/app", *PLACES)))


async def _answers(stand: Stand, solved: Evidence) -> dict[str, Secret]:
    """By digest, every output that the instruction names, as the solution writes it."""
    contents = await stand.contents_after_solving(asked_for(stand.task, solved.state))
    return {
        hashlib.sha256(content).hexdigest(): Secret("answer", path, len(content))
        for path, content in contents.items()
        if LEAST_BYTES <= len(content) <= LARGEST_ANSWER_BYTES
    }


def _matching(found: Mapping[str, str], hidden: Mapping[str, Secret]) -> Iterator[Leak]:
    for path, digest in found.items():
        if path in TAKEN:
            yield Leak(kind="tests" if path == "/tests" else "solution", where=path, what="is there from the start")
        elif digest in hidden and hidden[digest].is_known_by(path):
            yield Leak(kind=hidden[digest].kind, where=path, what=f"is the same as {hidden[digest].name}")


def _named(task: Task) -> Iterator[Leak]:
    """An instruction that is a recipe: it holds the solution's own commands."""
    entry = task.solution.files.get(task.solution.entry or "") if task.solution is not None else None
    script = Script.parse(entry.read().decode("utf-8", "replace")) if entry and entry.path.endswith(".sh") else None
    if script is None:
        return
    text = " ".join(task.instruction.split())
    commands = [" ".join(one.text.split()) for one in script.top if one.name and "\n" not in one.text]
    long = [one for one in commands if len(one) >= LEAST_COMMAND]
    told = [one for one in long if one in text]
    if told and len(told) >= GIVEN_AWAY * len(long):
        yield Leak(kind="instruction", where="instruction.md", what=f"holds the solution's command: {told[0][:100]}")
