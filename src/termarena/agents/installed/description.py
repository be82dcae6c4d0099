"""What an installed agent is: a small TOML file, ours (`catalog/`) or a user's."""

from __future__ import annotations

import hashlib
import tomllib
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from termarena.core.errors import NotFound, UsageError

__all__ = ["CUSTOM", "PREFIX", "Description", "McpForm", "Parser", "catalog", "describe"]

CUSTOM: Final = "custom"
PREFIX: Final = "/opt/termarena/agent"
"""Where an agent is installed, and where every sandbox sees it."""
LARGEST_BYTES: Final = 1 << 20
PAGE: Final = "docs/installed-agents.md has every field"
Parser = Literal["none", "claude-code", "codex", "opencode", "gemini-cli", "goose", "mini-swe-agent"]
McpForm = Literal["none", "claude-code", "codex", "gemini-cli", "opencode", "goose"]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]
Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class Description(BaseModel):
    """An installed agent. Scripts are POSIX shell; what they may read stands in docs/installed-agents.md."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)

    name: Name
    summary: str = ""
    version: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$")] = "unversioned"
    """What is installed unless another one is asked for; `$VERSION` in the script."""
    requires: tuple[Annotated[str, Field(pattern=r"^[A-Za-z0-9._+-]+$")], ...] = ()
    """Commands that the sandbox must have already."""
    install: Annotated[str, Field(min_length=1)]
    """Run once, with a network, in a sandbox of its own; only what it leaves below `$PREFIX` is kept."""
    install_timeout_s: Annotated[float, Field(gt=0)] = 900.0
    command: Annotated[str, Field(min_length=1)]
    """Run for every trial, where the task's commands start."""
    env: dict[Variable, str] = Field(default_factory=dict)
    """Variables of the command, beside ours; `$MODEL_URL` and the like are filled in."""
    needs_env: tuple[Variable, ...] = ()
    """Names of variables of the harness that the command needs; their values enter the sandbox."""
    parser: Parser = "none"
    """What reads its output."""
    log: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")] | None = None
    """A file below `$LOG_DIR` that is read instead of the standard output."""
    portable: Literal["no", "alone", "with-node"] = "no"
    """Whether it can be installed elsewhere for an image that lacks what it requires: alone, or with a Node.js."""
    starts: Annotated[str, Field(min_length=1)] | None = None
    """A script that fails where it does not start: tried once in every image that it is brought into."""
    mcp: McpForm = "none"
    """How the task's MCP servers stand in `$MCP_FILE`."""

    @property
    def digest(self) -> str:
        """Of everything that decides what is installed."""
        view = f"{PREFIX}\n{self.version}\n{self.requires}\n{self.install}"
        return hashlib.sha256(view.encode()).hexdigest()


def describe(word: str) -> Description:
    """The agent behind `cli:WORD`: `NAME`, `NAME@VERSION` or `custom:FILE`.

    Raises `NotFound` for a name or a file that there is not, `UsageError` for a file that is no description.
    """
    name, colon, path = word.partition(":")
    if name == CUSTOM:
        if not colon or not path:
            raise UsageError("cli:custom needs a description", hint=f"write --agent cli:custom:FILE.toml; {PAGE}")
        return _from_file(Path(path))
    name, _, version = word.partition("@")
    known = catalog()
    if name not in known:
        hint = f"for another one: --agent cli:{CUSTOM}:FILE.toml; {PAGE}"
        raise NotFound(f"no installed agent is called {name!r}", known=tuple(known), hint=hint)
    found = known[name]
    return _checked({**found.model_dump(), "version": version}, word) if version else found


@cache
def catalog() -> dict[str, Description]:
    """Those that come with us, by name."""
    found = [
        _checked(tomllib.loads(entry.read_text(encoding="utf-8")), entry.name)
        for entry in files("termarena.agents.installed").joinpath("catalog").iterdir()
        if entry.name.endswith(".toml")
    ]
    return {one.name: one for one in sorted(found, key=lambda one: one.name)}


def _from_file(path: Path) -> Description:
    if not path.is_file():
        raise NotFound(f"no description of an agent is at {path}", hint=PAGE)
    try:
        if path.stat().st_size > LARGEST_BYTES:
            raise UsageError(f"{path} is larger than {LARGEST_BYTES} bytes", hint=PAGE)
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path} is no TOML: {error}", hint=PAGE) from error
    return _checked(table, str(path))


def _checked(table: dict[str, object], where: str) -> Description:
    try:
        return Description.model_validate(table)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(map(str, first["loc"])) or "the description"
        known = ", ".join(Description.model_fields)
        told = f"there is no such field; there is: {known}" if first["type"] == "extra_forbidden" else first["msg"]
        raise UsageError(f"{where}: {field}: {told}", hint=PAGE) from error
