"""JSON and TOML files that a user names or has written: bounded before they are read, refused in the user's words."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ValidationError

from termarena.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["place_of", "read_given", "read_given_toml"]

Held = TypeVar("Held", bound=BaseModel)


def place_of(given: str, places: Mapping[str, Path]) -> Path:
    """Where what a user named lies here: `places` has it for files that were sent from another machine."""
    return places.get(given, Path(given))


def read_given(model: type[Held], path: Path, *, largest_bytes: int, hint: str) -> Held:
    """What a file of JSON holds, as an object of this class.

    Raises UsageError for a file that is too large or cannot be read, and with `hint` for the first field that does not
    fit.
    """
    try:
        return model.model_validate_json(_content(path, largest_bytes))
    except ValidationError as error:
        raise _unfit(path, error, hint) from error


def read_given_toml(model: type[Held], path: Path, *, hint: str, largest_bytes: int = 1 << 20) -> Held:
    """The same for a file of TOML."""
    content = _content(path, largest_bytes)
    try:
        return model.model_validate(tomllib.loads(content.decode()))
    except ValidationError as error:
        raise _unfit(path, error, hint) from error
    except ValueError as error:  # of the text or of its encoding
        raise UsageError(f"{path} is no TOML: {error}", hint=hint) from error


def _content(path: Path, largest_bytes: int) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(largest_bytes + 1)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error
    if len(content) > largest_bytes:
        raise UsageError(f"{path} is larger than {largest_bytes} bytes")
    return content


def _unfit(path: Path, error: ValidationError, hint: str) -> UsageError:
    first = error.errors(include_url=False, include_input=False)[0]
    return UsageError(f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg']}", hint=hint)
