"""Facts: what a solution leaves, as far as it is the same wherever and whenever it runs."""

from __future__ import annotations

import json
import posixpath
import re
import time
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from termarena.core.errors import RecordingRefused
from termarena.forge.bench import PLAIN, SERVES, Perturbation
from termarena.forge.steps import Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from termarena.forge.bench import Bench, Left, Question
    from termarena.forge.draft import Draft
    from termarena.sandbox.contract import Change, FileChanges
    from termarena.sandbox.staging import StartState

__all__ = ["PERTURBATIONS", "Fact", "gather", "leaves_the_same", "questions_of", "state_of"]

GATE: Final = "test"
MOST_PATHS: Final = 80
MOST_FACTS: Final = 60
LONGEST_VALUE: Final = 16 << 10
ORDINARY_MODE: Final = 0o644
ORDINARY_FOLDER: Final = 0o755
DAY_S: Final = 86_400
# Local time differs by 26 hours between the two, so that no date of the day is the same in both.
PERTURBATIONS: Final = (
    PLAIN,
    Perturbation("north", {"TZ": "AAA-14", "PYTHONHASHSEED": "1", "LC_ALL": "C", "TMPDIR": "/tmp"}),  # noqa: S108 - inside
    Perturbation(
        "south",
        {"TZ": "BBB+12", "PYTHONHASHSEED": "4242", "LC_ALL": "C.UTF-8", "TMPDIR": "/var/tmp"},  # noqa: S108 - inside
        has_decoy=True,
        clock="+499d",  # another day, month, year, and day of the week
    ),
)
_NOISE: Final = re.compile(
    r"/(?:solution|tests|logs|run|proc|sys|dev|tmp|var/(?:tmp|log|cache|lib/apt|lib/dpkg))(?:/|$)"
    r"|/(?:__pycache__|\.cache|\.pytest_cache|\.mypy_cache|\.npm|\.ssh|node_modules)(?:/|$)"
    r"|\.(?:pyc|swp|swo|o|d|log\.\d+|pid|lock)$"
    r"|/\.(?:\w*_history|lesshst|viminfo|wget-hsts|Xauthority|bash_logout|gitconfig\.lock)$"
)
_ACCOUNTS: Final = re.compile(r"/etc/(?:passwd|group|shadow|gshadow|subuid|subgid)-?$")
_SINCE_1970: Final = re.compile(r"(?<!\d)\d{10}(?:\d{3}){0,3}(?!\d)")
_DATED: Final = re.compile(r"index$|refs(?:/|$)|packed-refs$|\w+_HEAD$|AUTO_MERGE$|rebase-|sequencer")
"""Files of a repository that hold digests of commits, which hold the time."""
_REPOSITORY: Final = re.compile(r"^(?P<root>/.*?)/\.git(?:/|$)|^(?P<bare>/.*?\.git)(?:/|$)")


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that holds after the solution and not before it: a probe, its arguments, what it answers."""

    probe: str
    arguments: tuple[Any, ...]
    value: Any

    @property
    def path(self) -> str:
        """What it is about; of a program that is run, its name."""
        first = self.arguments[0]
        return str(first[0] if isinstance(first, list) else first)


# Questions.


def questions_of(changes: FileChanges) -> tuple[Question, ...]:
    """What to ask about each change that is no noise; a repository is asked as a whole."""
    repositories: dict[str, None] = {}
    asked: list[Question] = []
    told = [change for change in changes.changes if not _NOISE.search(change.path)]
    accounts = [change.path for change in told if _ACCOUNTS.match(change.path)]
    told = [change for change in told if change.path not in accounts]
    parents = {path for change in told for path in _above(change.path)}
    for change in told:
        inside = _REPOSITORY.match(change.path)
        if inside:
            repositories[inside["root"] or inside["bare"]] = None
        else:
            asked.extend(_asked(change, has_more=change.path in parents))
    if len(asked) > MOST_PATHS:
        raise RecordingRefused(GATE, f"{len(asked)} files and folders changed; at most {MOST_PATHS} can be told apart")
    people: list[Question] = [("people",)] if accounts else []
    return (*people, *(("repository", path) for path in repositories), *asked)


def state_of(changes: FileChanges) -> dict[str, str]:
    """What each changed path is, without noise; of a repository, as much as does not depend on the clock."""
    state: dict[str, str] = {}
    objects: Counter[str] = Counter()
    for one in changes.changes:
        inside = _REPOSITORY.match(one.path)
        rest = one.path[inside.end() :] if inside else ""
        if _NOISE.search(one.path) or rest.startswith("logs/"):
            continue
        if inside and rest.startswith("objects/"):
            objects[f"{inside[0]}objects"] += one.kind == "file"
        elif inside and _DATED.match(rest):
            state[one.path] = f"{one.change} {one.kind}"
        else:
            owner = f"{one.uid}:{one.gid}"
            state[one.path] = f"{one.change} {one.kind} {one.mode} {owner} {one.digest} {one.target}"
    return state | {path: f"{count} objects" for path, count in objects.items()}


def leaves_the_same(left: Mapping[str, str], whole: Sequence[Mapping[str, str]]) -> bool:
    """Whether a state has everything that the whole solution leaves every time, and nothing that it never leaves."""
    steady = {path: what for path, what in whole[0].items() if all(other.get(path) == what for other in whole)}
    seen = {path for state in whole for path in state}
    return left.keys() <= seen and all(left.get(path) == what for path, what in steady.items())


def _above(path: str) -> Iterable[str]:
    parts = path.split("/")
    return ("/".join(parts[:end]) for end in range(2, len(parts)))


def _asked(change: Change, *, has_more: bool) -> Iterable[Question]:
    path = change.path
    if change.change == "removed":
        return [("kind", path)]
    if change.kind == "symlink":
        return [("link_target", path)]
    found: list[Question] = [("owner", path)] if (change.uid or change.gid) else []
    if change.change == "metadata":
        return [*found, ("mode", path)]
    if change.kind == "folder":
        usual = change.mode is None or change.mode & 0o7777 == ORDINARY_FOLDER
        kind: list[Question] = [] if has_more else [("kind", path)]
        return [*found, *kind] if usual else [*found, *kind, ("mode", path)]
    if change.kind != "file":
        return [*found, ("kind", path)]
    usual = change.mode is None or change.mode & 0o7777 == ORDINARY_MODE
    return [*found, ("file", path)] if usual else [*found, ("file", path), ("mode", path)]


def _programs(draft: Draft, changes: FileChanges) -> tuple[Question, ...]:
    """Programs that the session made and then ran, with nothing but literal words: they can be run again."""
    made = {change.path for change in changes.changes if change.kind == "file" and change.change != "removed"}
    found: dict[str, Question] = {}
    for step in draft.steps:
        if step.role in (Role.DROPPED, Role.INPUT) or not step.line.is_plain:
            continue
        words = step.line.simples[0].words
        place = 1 if words[0] in _INTERPRETERS and len(words) > 1 else 0
        if ("/" in words[place] or place) and _joined(step.cwd, words[place]) in made:
            found[step.text] = ("output_of", list(words), step.cwd)
    return tuple(found.values())


_INTERPRETERS: Final = frozenset({"python3", "python", "bash", "sh", "perl", "node", "ruby"})


def _joined(cwd: str, path: str) -> str:
    return posixpath.normpath(posixpath.join(cwd, path))


# Gathering.


async def gather(bench: Bench, state: StartState, draft: Draft) -> tuple[Fact, ...]:
    """The facts of a draft's solution that hold in every perturbed run and not in the start state.

    Raises `RecordingRefused` (gate `test`) where the solution fails or nothing remains.
    """
    first = await bench.solve(state, draft.solution, None)
    _check(first)
    served = [tuple(question) for question in map(json.loads, first.facts) if question[0] == SERVES]
    asked = (*questions_of(first.changes), *_programs(draft, first.changes), *served)
    # Another clock is a library of this machine, which an image does not have.
    circumstances = [how if state.is_host_root else replace(how, clock=None) for how in PERTURBATIONS]
    runs = [await _perturbed(bench, state, draft.solution, asked, how) for how in circumstances]
    before = await bench.solve(state, None, tuple(tuple(json.loads(key)) for key in runs[0].facts))
    typed = "\n".join([*(step.text for step in draft.steps), *(given.content for given in draft.inputs)])
    kept = [
        _fact(key, value)
        for key, value in runs[0].facts.items()
        if _is_steady(key, value, runs, before.facts) and not tells_the_month(json.dumps(value), typed)
    ]
    programs = {fact.path for fact in kept if fact.probe == "is_program"}
    kept = [fact for fact in kept if fact.probe != "mode" or fact.path not in programs]
    if not kept:
        raise RecordingRefused(GATE, "nothing that it leaves is the same in every run and new")
    return tuple(kept[:MOST_FACTS])


async def _perturbed(
    bench: Bench, state: StartState, script: str, asked: Sequence[Question], how: Perturbation
) -> Left:
    """One run under other circumstances; gently where the solution stumbles over a decoy or a clock."""
    left = await bench.solve(state, script, asked, how)
    return left if left.exit_status == 0 or how == how.gentle else await bench.solve(state, script, asked, how.gentle)


def _check(left: Left) -> None:
    if left.timed_out:
        raise RecordingRefused(GATE, "the solution does not come to an end")
    if left.exit_status != 0:
        raise RecordingRefused(GATE, f"the solution ends with status {left.exit_status}: {left.said[-200:]}")


def _is_steady(key: str, value: object, runs: Sequence[Left], before: Mapping[str, Any]) -> bool:
    text = json.dumps(value, ensure_ascii=False)
    same = all(key in run.facts and run.facts[key] == value for run in runs[1:]) and not _says_nothing(key, value)
    is_new = key not in before or before[key] != value
    return same and is_new and len(text) <= LONGEST_VALUE and not _tells_the_day(text)


def _says_nothing(key: str, value: object) -> bool:
    """Whether every other solution would leave the same: no tags, no index, one branch, a history without merges."""
    probe = json.loads(key)[0]
    lone = probe == "git_branches" and isinstance(value, list) and len(value) == 1
    return lone or (probe in ("git_tags", "git_merges", "sqlite_indexes") and not value)


def _tells_the_day(text: str) -> bool:
    """Whether the value names the current day: a date in UTC is the same in every zone, and runs of one second agree
    in seconds since 1970 too, in whatever fraction they are counted."""
    now = time.time()
    day = time.gmtime(now)
    forms = ("%Y-%m-%d", "%d.%m.%Y", "%Y/%m/%d", "%b %d", "%d %b", "%Y%m%d", "%d/%m/%Y", "%m/%d/%Y")
    seconds = (int(number[:10]) for number in _SINCE_1970.findall(text))
    return any(time.strftime(form, day) in text for form in forms) or any(abs(now - one) < DAY_S for one in seconds)


def tells_the_month(text: str, typed: str) -> bool:
    """Whether the value names the current week, month or year, and nobody typed it: then it comes from the clock."""
    now = time.gmtime()
    forms = {time.strftime(form, now) for form in ("%Y", "%Y%m", "%B", "%G-W%V", "%b %Y")}
    named = [form for form in forms if re.search(rf"(?<!\d){re.escape(form)}(?!\d)", text)]
    return any(form not in typed for form in named)


def _fact(key: str, value: object) -> Fact:
    probe, *arguments = json.loads(key)
    return Fact(probe, tuple(arguments), value)
