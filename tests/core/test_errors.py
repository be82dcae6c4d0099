from __future__ import annotations

import builtins
import inspect
import re

from termarena.core import errors
from termarena.core.errors import DigestMismatch, MissingExtra, NotFound, TaskFormatError, TermArenaError, UsageError

DRAWN = re.compile(r"^ {4}([│├└─ ]*)(\w+)(?: +(.*))?$")


def _drawn() -> dict[str, tuple[str | None, str]]:
    """Each class of the drawn tree with its parent and what is said of it."""
    tree: dict[str, tuple[str | None, str]] = {}
    path: list[str] = []
    for line in inspect.cleandoc(errors.__doc__ or "").splitlines():
        found = DRAWN.match(line)
        if found:
            depth = len(found[1]) // 4
            path = [*path[:depth], found[2]]
            tree[found[2]] = (path[depth - 1] if depth else None, found[3] or "")
    return tree


def _real() -> dict[str, type[TermArenaError]]:
    members = vars(errors).values()
    return {kind.__name__: kind for kind in members if isinstance(kind, type) and issubclass(kind, TermArenaError)}


def test_the_drawn_tree_is_the_real_one() -> None:
    drawn = {name: parent for name, (parent, _) in _drawn().items()}
    real = {name: _parent(kind) for name, kind in _real().items()}
    assert drawn == real
    assert len(real) >= 10


def _parent(kind: type[TermArenaError]) -> str | None:
    parent = kind.__bases__[0]
    return parent.__name__ if issubclass(parent, TermArenaError) else None


def test_what_the_tree_says_of_builtins_and_statuses_is_so() -> None:
    said = {name: text for name, (_, text) in _drawn().items()}
    also = {name: re.findall(r"\(also an? (\w+)\)", text) for name, text in said.items()}
    for name, kind in _real().items():
        bases = [
            base.__name__ for base in kind.__bases__ if not issubclass(base, TermArenaError) and base is not Exception
        ]
        assert also[name] == bases, name
        assert all(hasattr(builtins, base) for base in bases)
    assert "(exit status 2)" in said["UsageError"]
    assert {kind.exit_status for kind in _real().values() if issubclass(kind, UsageError)} == {2}
    assert {kind.exit_status for kind in _real().values() if not issubclass(kind, UsageError)} == {1}


def test_all_names_every_error() -> None:
    assert set(errors.__all__) >= set(_real())
    assert errors.__all__ == sorted(errors.__all__)


def test_an_error_carries_its_fields_into_json() -> None:
    error = TaskFormatError("task.toml", field="agent.timeout_sec", found="-1", expected="a positive number")
    assert error.as_dict() == {
        "kind": "TaskFormatError",
        "message": "task.toml: agent.timeout_sec: found -1; expected a positive number",
        "file": "task.toml",
        "field": "agent.timeout_sec",
        "found": "-1",
        "expected": "a positive number",
    }
    assert isinstance(error, ValueError)


def test_long_lists_of_names_are_shortened() -> None:
    names = tuple(f"task-{number:03}" for number in range(100))
    assert str(NotFound("no task 'x'", known=names)).endswith("task-019, … (100 in all)")
    assert str(NotFound("no task 'x'", known=names[:2])) == "no task 'x'; there is: task-000, task-001"
    assert str(DigestMismatch("samples", files=names)).endswith("task-019; … (100 in all)")


def test_a_missing_extra_says_how_to_install_it() -> None:
    error = MissingExtra("httpx", extra="fetch", purpose="downloading")
    assert error.hint == "pip install 'termarena[fetch]'; in a clone: make setup"
    apart = MissingExtra("litellm", extra="litellm", purpose="it")
    assert str(apart.hint).endswith("in a clone: .venv/bin/pip install -e '.[litellm]'")
    assert isinstance(error, ImportError)
