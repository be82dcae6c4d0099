"""Settings: what `termarena.toml`, the environment and the command line may say, and which of them won.

A value comes from the first of: a flag, a TERMARENA_… variable, the project's file (the nearest `termarena.toml` from
the current folder upwards), the user's file (`$XDG_CONFIG_HOME/termarena/termarena.toml`), the default. A relative path
is relative to the file that holds it, or to the current folder. An unknown name or a wrong type is an error that names
file and field. This module reads files; it writes and creates nothing.
"""

from __future__ import annotations

import difflib
import os
import reprlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_origin

from pydantic import BaseModel, ConfigDict

from termarena.core.errors import UsageError
from termarena.core.home import default_home, user_folder

__all__ = [
    "FILE_NAME",
    "SETTING_NAMES",
    "DatasetSettings",
    "ImageSettings",
    "Origin",
    "PathSettings",
    "ResolvedSettings",
    "Settings",
    "SettingsFile",
    "TaskSettings",
    "resolve_settings",
    "variable_of",
]

FILE_NAME = "termarena.toml"


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


class PathSettings(_Section):
    """`[paths]`"""

    home: Path
    """The folder for caches: see `termarena.core.home`."""


class DatasetSettings(_Section):
    """`[datasets]`"""

    sources: Mapping[str, str] = {}
    """Names for `datasets pull`, each with the source it stands for; one that TermArena knows is replaced."""


class ImageSettings(_Section):
    """`[images]`"""

    mirrors: Mapping[str, str] = {}
    """For the host of a registry (`docker.io`), the address that is asked first when an image is pulled."""


class TaskSettings(_Section):
    """`[tasks]`"""

    strict: bool = False
    """Whether every warning of a task's loader is an error: what it would mend or set aside, it refuses."""


class Settings(_Section):
    """Every setting, resolved."""

    paths: PathSettings
    datasets: DatasetSettings = DatasetSettings()
    images: ImageSettings = ImageSettings()
    tasks: TaskSettings = TaskSettings()


@dataclass(frozen=True)
class Origin:
    """Where a value came from; `where` is the file, the variable or the flag."""

    kind: Literal["flag", "environment", "project", "user", "default"]
    where: str | None = None


@dataclass(frozen=True)
class SettingsFile:
    """A file that was looked for."""

    kind: Literal["project", "user"]
    path: Path
    is_there: bool


@dataclass(frozen=True)
class ResolvedSettings:
    """The settings, and for each dotted name (`tasks.strict`) where its value came from."""

    settings: Settings
    origins: Mapping[str, Origin]
    files: tuple[SettingsFile, ...]

    def values(self) -> dict[str, object]:
        """Every value by its dotted name, in the order in which they are declared."""
        sections = self.settings.model_dump(mode="json")
        flat = {f"{section}.{field}": value for section, fields in sections.items() for field, value in fields.items()}
        tables = {f"{name}.{key}": entry for name in _TABLES for key, entry in flat.pop(name).items()}
        return flat | tables


_Values = dict[str, tuple[object, Origin]]

_LEAVES: dict[str, object] = {
    f"{section}.{name}": field.annotation
    for section, holder in Settings.model_fields.items()
    if isinstance(holder.annotation, type) and issubclass(holder.annotation, BaseModel)
    for name, field in holder.annotation.model_fields.items()
}
SETTING_NAMES = tuple(_LEAVES)
_TABLES = {name for name, kind in _LEAVES.items() if get_origin(kind) is Mapping}
_EXPECTED = {bool: "true or false", Path: "a path, in quotes"}


def resolve_settings(
    flags: Mapping[str, object] | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> ResolvedSettings:
    """Look at every place where a setting can stand and let the first one win.

    `flags` holds dotted names; one that is None was not given. `environment` and `folder` are the process's own unless
    named. Raises UsageError for a file, a variable or a flag that does not hold what its name asks for.
    """
    environment = os.environ if environment is None else environment
    folder = folder or _current_folder()
    files = _files(environment, folder)
    values: _Values = {"paths.home": (default_home(environment), Origin("default"))}
    for file in reversed(files):
        if file.is_there:
            values |= _from_file(file, environment)
    values |= _from_environment(environment, folder)
    values |= _from_flags(flags or {}, environment, folder)
    origins = {name: Origin("default") for name in _LEAVES if name not in _TABLES}
    return ResolvedSettings(_build(values), origins | {name: origin for name, (_, origin) in values.items()}, files)


def variable_of(name: str) -> str:
    """The environment variable that sets a dotted name."""
    return "TERMARENA_HOME" if name == "paths.home" else "TERMARENA_" + name.replace(".", "_").upper()


def _current_folder() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:  # removed under our feet: then there is no project either
        return Path("/")


def _files(environment: Mapping[str, str], folder: Path) -> tuple[SettingsFile, ...]:
    base = environment.get("XDG_CONFIG_HOME", "")
    config = Path(base) if base.startswith("/") else user_folder(environment) / ".config"
    user = config / "termarena" / FILE_NAME
    # os.path.isfile says no where Path.is_file raises: a folder above that may not be searched.
    above = (parent / FILE_NAME for parent in (folder, *folder.parents))
    project = next((path for path in above if path != user and os.path.isfile(path)), None)  # noqa: PTH113
    return (
        SettingsFile("project", project or folder / FILE_NAME, is_there=project is not None),
        SettingsFile("user", user, is_there=os.path.isfile(user)),  # noqa: PTH113
    )


def _from_file(file: SettingsFile, environment: Mapping[str, str]) -> _Values:
    try:
        document = tomllib.loads(file.path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{file.path}: cannot be read as TOML: {error}") from error
    except RecursionError as error:
        raise UsageError(f"{file.path}: cannot be read as TOML: it is nested too deeply") from error
    origin = Origin(file.kind, str(file.path))
    return {
        name: (_placed(name, value, origin, base=file.path.parent, environment=environment), origin)
        for name, value in _flat(document, file.path)
    }


def _flat(document: Mapping[str, object], file: Path) -> list[tuple[str, object]]:
    """The document as dotted names; refuses those that no setting has."""
    flat: list[tuple[str, object]] = []
    for section, content in document.items():
        if section not in Settings.model_fields:
            raise _unknown(str(file), section, [*Settings.model_fields, *_LEAVES])
        if not isinstance(content, dict):
            raise _wrong(str(file), section, content, f"a table: [{section}]")
        for field, value in content.items():
            name = f"{section}.{field}"
            if name not in _LEAVES:
                raise _unknown(str(file), name, list(_LEAVES))
            flat += _entries(name, value, str(file)) if name in _TABLES else [(name, value)]
    return flat


def _entries(name: str, value: object, where: str) -> list[tuple[str, object]]:
    if not isinstance(value, Mapping):
        raise _wrong(where, name, value, f"a table: [{name}]")
    return [(f"{name}.{key}", entry) for key, entry in value.items()]


def _from_environment(environment: Mapping[str, str], folder: Path) -> _Values:
    values: _Values = {}
    for name in _LEAVES:
        variable = variable_of(name)
        text = environment.get(variable, "")
        if not text:
            continue
        origin = Origin("environment", variable)
        parsed = _pairs(name, text, variable) if name in _TABLES else [(name, _parsed(name, text))]
        for key, value in parsed:
            values[key] = (_placed(key, value, origin, base=folder, environment=environment), origin)
    return values


def _parsed(name: str, text: str) -> object:
    """A variable's text as the setting's type; what is no boolean is left to `_placed` to refuse."""
    if _LEAVES[name] is not bool:
        return text
    return {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}.get(text.lower(), text)


def _pairs(name: str, text: str, variable: str) -> list[tuple[str, object]]:
    """`name=source name=source`, as a variable holds a table."""
    pairs = [pair.partition("=") for pair in text.split()]
    if not all(key and value for key, _, value in pairs):
        raise _wrong(variable, name, text, "name=source pairs with blanks between them")
    return [(f"{name}.{key}", value) for key, _, value in pairs]


def _from_flags(flags: Mapping[str, object], environment: Mapping[str, str], folder: Path) -> _Values:
    values: _Values = {}
    for name, value in flags.items():
        if value is None:
            continue
        origin = Origin("flag", "--" + name.rpartition(".")[2])
        if name not in _LEAVES:
            raise _unknown("the command line", name, list(_LEAVES))
        entries = _entries(name, value, str(origin.where)) if name in _TABLES else [(name, value)]
        for key, entry in entries:
            values[key] = (_placed(key, entry, origin, base=folder, environment=environment), origin)
    return values


def _placed(name: str, value: object, origin: Origin, *, base: Path, environment: Mapping[str, str]) -> object:
    """The value with its type checked and, where it is a path, made absolute."""
    kind = _LEAVES.get(name, str)
    if kind is Path and isinstance(value, str | Path) and str(value):
        return _absolute(str(value), base, environment)
    if kind is Path or not isinstance(kind, type) or not isinstance(value, kind):
        expected = _EXPECTED.get(kind, "text, in quotes") if isinstance(kind, type) else "text, in quotes"
        raise _wrong(str(origin.where), name, value, expected)
    return value


def _absolute(text: str, base: Path, environment: Mapping[str, str]) -> Path:
    if text == "~" or text.startswith("~/"):
        return user_folder(environment) / text[2:]
    return base / text


def _build(values: _Values) -> Settings:
    """The model; every value has been checked where it stood, so that an error could say where."""
    sections: dict[str, dict[str, object]] = {}
    for name, (value, _) in values.items():
        section, field, *key = name.split(".", 2)
        fields = sections.setdefault(section, {})
        if key:
            table = fields.setdefault(field, {})
            if isinstance(table, dict):
                table[key[0]] = value
        else:
            fields[field] = value
    return Settings.model_validate(sections)


def _unknown(where: str, name: str, known: list[str]) -> UsageError:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}?" if near else f"there is: {', '.join(known)}"
    return UsageError(f"{where}: {name}: no such setting", hint=hint)


def _wrong(where: str, name: str, found: object, expected: str) -> UsageError:
    return UsageError(f"{where}: {name}: found {_shown(found)}; expected {expected}")


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80


def _shown(value: object) -> str:
    """A value in few words, however long or deep it is."""
    try:
        return _SHORT.repr(value)
    except ValueError:  # a whole number with more digits than Python agrees to write
        return "a number that is too long to show"
