"""JSON files that a user names on the command line: bounded before they are read, refused in the user's words."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ValidationError

from termarena.core.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["read_given"]

Held = TypeVar("Held", bound=BaseModel)


def read_given(model: type[Held], path: Path, *, largest_bytes: int, hint: str) -> Held:
    """What a file holds, as an object of this class.

    Raises UsageError for a file that is too large or cannot be read, and with `hint` for the first field that does not
    fit.
    """
    try:
        if path.stat().st_size > largest_bytes:
            raise UsageError(f"{path} is larger than {largest_bytes} bytes")
        return model.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise UsageError(f"{path}: {where}: {first['msg']}", hint=hint) from error
