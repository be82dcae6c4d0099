"""From a parsed document to a typed section: unknown fields set aside, loose types mended, everything else refused by
name.

Formats in the wild are written by hand. A misspelt key must not pass unseen (Harbor drops it), and a number in quotes
must not cost a task; so both become findings, which `--strict` turns into errors.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from functools import cache
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import ValidationError

from termarena.core.errors import LooseTask, TaskFormatError
from termarena.tasks.model import Finding, Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pydantic_core import ErrorDetails

__all__ = ["Checker", "known_names", "refuse_warnings", "shown"]

Section = TypeVar("Section", bound=Frozen)
_SHOWN_VALUE = 80


@dataclass(slots=True)
class Checker:
    """Collects what one document's sections had to say. `file` is the path errors name; `name` the path findings
    name."""

    file: str
    name: str
    findings: list[Finding] = field(default_factory=list)
    unknown: dict[str, Any] = field(default_factory=dict)

    def check(self, kind: type[Section], table: object, *, prefix: str = "") -> Section:
        """`table` as a `kind`. Raises TaskFormatError for the first field that does not fit, naming the others in the
        hint."""
        if not isinstance(table, dict):
            raise TaskFormatError(self.file, field=prefix or None, found=shown(table), expected="a table")
        try:
            return kind(**table)
        except ValidationError as error:
            problems = error.errors(include_url=False)
        before = len(self.unknown)
        if any(problem["type"] == "extra_forbidden" for problem in problems):
            self._set_unknown_aside(table, known_names(kind), prefix)
        if len(self.unknown) > before:
            return self.check(kind, table, prefix=prefix)
        mended = _mend(table, problems, prefix)
        if mended is None:
            raise self._refusal(table, problems, prefix)
        for place in mended:
            self.note("loose-type", f"{place} is written in another type than the format's; read as meant", field=place)
        return self.check(kind, table, prefix=prefix)

    def note(self, rule: str, message: str, *, field: str | None = None, hint: str | None = None) -> None:
        """Add a warning."""
        self.findings.append(
            Finding(rule=rule, severity="warning", file=self.name, message=message, field=field, hint=hint)
        )

    def refuse(self, place: str, *, found: object, expected: str) -> TaskFormatError:
        """An error for the caller to raise: a rule of the format that types cannot say."""
        return TaskFormatError(self.file, field=place, found=shown(found), expected=expected)

    def _set_unknown_aside(self, table: dict[str, Any], known: dict[str, type[Frozen] | None], prefix: str) -> None:
        if not table.keys() <= known.keys():
            for name in [name for name in table if name not in known]:
                place = _below(prefix, name)
                self.unknown[place] = table.pop(name)
                near = difflib.get_close_matches(name, known, n=1)
                self.note(
                    "unknown-field",
                    f"unknown field {place}" + (f"; did you mean {near[0]}?" if near else ""),
                    field=place,
                    hint="it is kept but has no effect; free-form notes belong in [metadata]",
                )
        for name, value in table.items():
            below = known[name]
            if below is not None and value:
                self._descend(value, known_names(below), _below(prefix, name))

    def _descend(self, value: object, known: dict[str, type[Frozen] | None], prefix: str) -> None:
        if isinstance(value, dict):
            self._set_unknown_aside(value, known, prefix)
        elif isinstance(value, list):
            for number, item in enumerate(value):
                if isinstance(item, dict):
                    self._set_unknown_aside(item, known, f"{prefix}.{number}")

    def _refusal(self, table: dict[str, Any], problems: list[ErrorDetails], prefix: str) -> TaskFormatError:
        places = [_place(table, problem, prefix) for problem in problems]
        # Of a field that may be of two types, both attempts are told; the one that came further says more.
        first = next((n for n, place in enumerate(places) if place.startswith(f"{places[0]}.")), 0)
        others = dict.fromkeys(place for place in places if not places[first].startswith(place))
        problem = problems[first]
        return TaskFormatError(
            self.file,
            field=places[first],
            found="nothing" if problem["type"] == "missing" else shown(problem["input"]),
            expected=_expectation(problem),
            hint=f"also wrong: {', '.join(others)}" if others else None,
        )


def refuse_warnings(findings: Iterable[Finding], path_of: Callable[[str], str]) -> None:
    """Raise LooseTask with every warning there is; `path_of` gives the path that an error names a finding's file by."""
    warnings = tuple(
        {"rule": one.rule, "file": path_of(one.file), "field": one.field, "message": one.message}
        for one in findings
        if one.severity == "warning"
    )
    if warnings:
        raise LooseTask(warnings)


def shown(value: object) -> str:
    """A value as an error shows it: its repr, shortened."""
    text = repr(value)
    return text if len(text) <= _SHOWN_VALUE else f"{text[:_SHOWN_VALUE]}… ({len(text)} characters)"


@cache
def known_names(kind: type[Frozen]) -> dict[str, type[Frozen] | None]:
    """The names a document may use in this section, each with the section below it, if any."""
    return {info.alias or name: _section_in(info.annotation) for name, info in kind.model_fields.items()}


def _section_in(annotation: object) -> type[Frozen] | None:
    if isinstance(annotation, type) and issubclass(annotation, Frozen):
        return annotation
    if get_origin(annotation) in (Annotated, Union, UnionType, list, tuple):
        return next((found for part in get_args(annotation) if (found := _section_in(part))), None)
    return None


def _below(prefix: str, name: int | str) -> str:
    """The dotted path of a name in a document; a name with a dot in it is quoted, as TOML does."""
    part = f'"{name}"' if isinstance(name, str) and (not name or "." in name or '"' in name) else str(name)
    return f"{prefix}.{part}" if prefix else part


def _place(table: Any, problem: ErrorDetails, prefix: str) -> str:  # noqa: ANN401 - walks a document
    """Where a problem lies in the document. pydantic also names the type it tried (`artifacts.0.Artifact.source`)."""
    for number, part in enumerate(problem["loc"], 1):
        is_there = (
            part in table if isinstance(table, dict) else isinstance(table, (list, tuple)) and isinstance(part, int)
        )
        if is_there:
            table = table[part]
        elif not (problem["type"] == "missing" and number == len(problem["loc"])):
            continue
        prefix = _below(prefix, part)
    return prefix


_EXPECTED = {
    "missing": "a value: it is required",
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a table",
    "mapping_type": "a table",
    "model_type": "a table",
    "finite_number": "a finite number",
}


def _expectation(problem: ErrorDetails) -> str:
    context = problem.get("ctx", {})
    match problem["type"]:
        case "greater_than":
            return f"a number above {context['gt']:g}"
        case "greater_than_equal":
            return f"a number of at least {context['ge']:g}"
        case "literal_error":
            return f"one of {context['expected']}"
        case kind:
            return _EXPECTED.get(kind, problem["msg"])


_NUMBERS = {"int_type": int, "int_from_float": int, "float_type": float}


def _mend(table: dict[str, Any], problems: list[ErrorDetails], prefix: str) -> list[str] | None:
    """Rewrite in place each number that was quoted or has a needless fraction. None if any problem is of another
    kind."""
    mended = []
    for problem in problems:
        number = _NUMBERS.get(problem["type"])
        value = problem["input"]
        meant = _as_number(value, number) if number and isinstance(value, (str, float)) else None
        place = _place(table, problem, prefix)
        if meant is None or not _replace(table, problem["loc"], value, meant):
            return None
        mended.append(place)
    return mended


def _as_number(value: str | float, number: type[int | float]) -> float | None:
    try:
        meant = float(value)
        return number(meant) if number is float or meant.is_integer() else None
    except (ValueError, OverflowError):
        return None


def _replace(table: Any, place: tuple[int | str, ...], value: object, meant: float) -> bool:  # noqa: ANN401 - walks a document
    *above, last = place
    for part in above:
        try:
            table = table[part]
        except (KeyError, IndexError, TypeError):
            return False
    if isinstance(table, (dict, list)) and table[last] is value:  # type: ignore[index]  # the place came from pydantic
        table[last] = meant  # type: ignore[index]  # likewise
        return True
    return False
