"""Records: the JSON files that TermArena writes, with kind and schema version, replaced whole or not at all."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError, to_json

from termarena.core.errors import TaskFormatError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Json", "read_record", "read_record_as", "write_atomically", "write_record"]

Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"
Held = TypeVar("Held", bound=BaseModel)

# A record is read whole: the limit keeps a wrong path, such as a disk image, from filling the memory.
RECORD_LIMIT_BYTES = 256 << 20


def write_record(
    path: Path | str, kind: str, payload: Mapping[str, object], *, version: int = 1, is_durable: bool = True
) -> None:
    """Write the payload with its `schema_version` and `kind`; readers see the old file or the new one, never a part.

    `is_durable` as in `write_atomically`.

    Raises ValueError when the payload holds NaN or one of the two reserved names, TypeError when JSON cannot hold it,
    OSError when the folder cannot be written; in each case the old file stays as it was.
    """
    reserved = {"schema_version", "kind"} & set(payload)
    if reserved:
        raise ValueError(f"a record's payload cannot hold {', '.join(sorted(reserved))}")
    document = {"schema_version": version, "kind": kind, **payload}
    write_atomically(path, _in_lines(document) + b"\n", is_durable=is_durable)


def _in_lines(document: Mapping[str, object]) -> bytes:
    """The document as JSON for people, by pydantic's serializer: Python's own takes seven times as long over it.

    Raises ValueError and TypeError as `write_record` does: pydantic would write NaN, and bytes as text.
    """
    json.dumps(document, allow_nan=False)
    try:
        return to_json(document, indent=2)
    except PydanticSerializationError:
        # A name of a file need not be UTF-8: what it holds then is escaped, and read back as it was.
        return json.dumps(document, indent=2, ensure_ascii=False).encode("utf-8", "backslashreplace")


def read_record(path: Path | str, kind: str, *, version: int = 1) -> dict[str, Json]:
    """The payload of a record of this kind, `schema_version` included, so that a caller can tell an older one.

    Raises TaskFormatError when the file is missing, unreadable, not JSON, of another kind, or newer than `version`.
    """
    document = _parse(str(path), _read(Path(path)))
    if document.pop("kind", None) != kind:
        raise TaskFormatError(str(path), field="kind", found="another kind of file", expected=f"a {kind}")
    found = document.get("schema_version")
    if not isinstance(found, int) or isinstance(found, bool) or found < 1:
        raise TaskFormatError(str(path), field="schema_version", found=repr(found), expected="a version number")
    if found > version:
        raise TaskFormatError(
            str(path),
            field="schema_version",
            found=str(found),
            expected=f"at most {version}",
            hint="a newer TermArena wrote this file: update this one",
        )
    return document


def read_record_as(model: type[Held], path: Path | str, kind: str) -> Held:
    """What a record of this kind and of version 1 holds, as an object of this class.

    Raises what `read_record` raises, and TaskFormatError for the first field that does not fit.
    """
    record = read_record(path, kind)
    del record["schema_version"]
    try:
        return model.model_validate(record)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        is_missing = first["type"] == "missing"
        raise TaskFormatError(
            str(path),
            field=where,
            found="nothing" if is_missing else repr(first["input"])[:80],
            expected="a value" if is_missing else first["msg"],
            hint="it was changed by hand, or another version of TermArena wrote it",
        ) from error


def write_atomically(path: Path | str, content: bytes, *, is_durable: bool = True) -> None:
    """Replace a file as a whole, and make it durable; through a symbolic link, the file that it points to.

    One that is not durable survives this process and not a machine that loses its power in the next seconds: for what
    stands beside a durable file that says what counts. Raises OSError; then the old file is as it was and nothing else
    is left in the folder.
    """
    target = Path(path)
    target = target.resolve() if target.is_symlink() else target
    temporary = target.with_name(f".{target.name}.{os.urandom(4).hex()}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            if is_durable:
                os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if is_durable:
        _make_durable(target.parent)


def _make_durable(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(RECORD_LIMIT_BYTES + 1)
    except OSError as error:
        raise TaskFormatError(str(path), found=f"no readable file ({error.strerror})", expected="a record") from error
    if len(content) > RECORD_LIMIT_BYTES:
        raise TaskFormatError(
            str(path), found="a larger file", expected=f"a record of at most {RECORD_LIMIT_BYTES} bytes"
        )
    return content


def _parse(file: str, content: bytes) -> dict[str, Json]:
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise TaskFormatError(file, found=f"JSON that does not parse: {error}", expected="a record") from error
    if not isinstance(document, dict):
        raise TaskFormatError(file, found=f"a JSON {type(document).__name__}", expected="a record, which is an object")
    return document
