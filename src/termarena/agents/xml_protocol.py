"""Replies that are marked up: `<command>…</command>`, `<params><EXECUTE>…`, or a JSON object with a command."""

from __future__ import annotations

import html
import json
import re
from typing import TYPE_CHECKING, Any, Final

from termarena.agents.toolbox import Action

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["read_marked"]

_ACTIONS: Final = re.compile(r"<actions>(.*?)</actions>", re.DOTALL | re.IGNORECASE)
_PARAMETERS: Final = re.compile(r"<params>(.*)</params>", re.DOTALL | re.IGNORECASE)
_COMMAND: Final = re.compile(r"<command>(.*?)</command>", re.DOTALL | re.IGNORECASE)
_RAW: Final = re.compile(r"&(?!(?:amp|lt|gt|quot|apos|#\d+);)|<(?!!\[CDATA\[)")
_SHELL_TOOLS: Final = frozenset({"RUN_SHELL_COMMAND", "SHELL", "EXEC", "EXECUTE", "BASH"})
LONGEST_JSON: Final = 1 << 20


def read_marked(text: str) -> list[Action]:
    """The actions of a reply that is marked up; none where it is not."""
    listed = _ACTIONS.search(text)
    if listed:
        parameters = _PARAMETERS.search(text)
        return [*_named(listed[1], parameters[1] if parameters else "")]
    commands = [_plain(found) for found in _COMMAND.findall(text)]
    if commands:
        return [Action("", "EXECUTE", {"command": "\n".join(command.strip("\n") for command in commands)})]
    return _from_json(text)


def _named(names: str, parameters: str) -> Iterator[Action]:
    for name in re.findall(r"[A-Z_]+", names.upper()):
        if name == "REPLY":
            continue
        found = re.search(rf"<{name}>(.*?)</{name}>", parameters, re.DOTALL | re.IGNORECASE)
        inside = found[1] if found else ""
        fields = re.findall(r"<(command|path|content)>(.*?)</\1>", inside, re.DOTALL | re.IGNORECASE)
        given: dict[str, object] = {field.lower(): _plain(value) for field, value in fields}
        yield Action("", "WRITE_FILE", {**given, "content": ""}) if name == "TOUCH" else Action("", name, given)


def _plain(value: str) -> str:
    """A text out of XML: as it stands where it is no proper XML, as models often write it."""
    if value.startswith("<![CDATA[") and value.endswith("]]>"):
        return value[len("<![CDATA[") : -len("]]>")]
    return value if _RAW.search(value) else html.unescape(value)


def _from_json(text: str) -> list[Action]:
    start = text.find("{")
    while 0 <= start < len(text) <= LONGEST_JSON:
        try:
            value, _ = json.JSONDecoder().raw_decode(text, start)
        except (ValueError, RecursionError):
            start = text.find("{", start + 1)
            continue
        return _in_object(value)
    return []


def _in_object(value: Any) -> list[Action]:  # noqa: ANN401 - whatever JSON holds
    if not isinstance(value, dict):
        return []
    inner = value.get("params", value)
    if isinstance(inner, dict) and isinstance(inner.get("BENCHMARK_ACTION"), dict):
        inner = inner["BENCHMARK_ACTION"]
    if not isinstance(inner, dict):
        return []
    command = inner.get("command", inner.get("cmd"))
    is_shell = str(inner.get("tool_name", "SHELL")).upper() in _SHELL_TOOLS
    if isinstance(command, str) and command.strip() and is_shell:
        return [Action("", "EXECUTE", {"command": command})]
    return [Action("", "TASK_COMPLETE", {})] if inner.get("complete") is True else []
