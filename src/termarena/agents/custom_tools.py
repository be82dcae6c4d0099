"""Tools of one's own for models: a file says what they are called, what they take and what they run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from termarena.core.errors import NotFound
from termarena.core.given_files import read_given
from termarena.models import ToolSpec

if TYPE_CHECKING:
    from pathlib import Path

    from termarena.core.records import Json

__all__ = ["CustomTool", "read_tools"]

LARGEST_BYTES: Final = 1 << 20
OWN_NAMES: Final = frozenset({"EXECUTE", "READ_FILE", "WRITE_FILE", "LIST_DIR", "TASK_COMPLETE"})
Name = Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]{1,40}$")]
ParameterName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,40}$")]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Parameter(_Frozen):
    """What a tool takes: a text."""

    description: str = ""
    type: Literal["string"] = "string"


class CustomTool(_Frozen):
    """One tool. Its script runs in the sandbox, each argument in a variable of its name: no argument becomes code."""

    name: Name
    description: str
    parameters: dict[ParameterName, Parameter] = Field(default_factory=dict)
    script: str
    """For bash where the sandbox has it, else for sh: `sqlite3 /app/data.db "$query"`."""
    categories: tuple[str, ...] = ()
    """Of the tasks that it is for; empty: all."""
    timeout_s: Annotated[float, Field(gt=0, le=3600)] = 120.0

    def spec(self) -> ToolSpec:
        """As models are offered it."""
        properties: dict[str, Json] = {
            name: {"type": one.type, "description": one.description} for name, one in self.parameters.items()
        }
        schema: dict[str, Json] = {"type": "object", "properties": properties, "required": [*self.parameters]}
        return ToolSpec(self.name, self.description, {**schema, "additionalProperties": False})


class _File(_Frozen):
    tools: tuple[CustomTool, ...]

    @model_validator(mode="after")
    def _names_are_their_own(self) -> _File:
        names = [tool.name for tool in self.tools]
        for name in names:
            if name in OWN_NAMES:
                raise ValueError(f"{name} is a tool already")
            if names.count(name) > 1:
                raise ValueError(f"{name} is there twice")
        return self


def read_tools(path: Path) -> tuple[CustomTool, ...]:
    """Raises `NotFound` for a path without a file, `UsageError` for a file that holds no tools."""
    if not path.is_file():
        raise NotFound(f"no file of tools is at {path}", hint="docs/agents.md shows one")
    return read_given(_File, path, largest_bytes=LARGEST_BYTES, hint="docs/agents.md shows such a file").tools
