"""What the interfaces have in common."""

from __future__ import annotations

import json
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from termarena.broker.contract import Refusal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from termarena.models.contract import Completion, Message

__all__ = ["as_text", "merged", "new_id", "objects", "shown_input", "shown_output"]

_CHARACTERS_PER_TOKEN = 4


def lowered(body: Mapping[str, Any], names: tuple[str, ...], most: int) -> dict[str, Any]:
    """The body with no larger number at any of the names that it uses; at the first name where it uses none."""
    used = [name for name in names if body.get(name) is not None] or [names[0]]
    wanted = {name: body.get(name) for name in used}
    fits = {name: value for name, value in wanted.items() if isinstance(value, int) and 0 < value <= most}
    return {**body, **{name: fits.get(name, most) for name in used}}


def objects(value: object, what: str) -> list[dict[str, Any]]:
    """A list of objects. Raises `Refusal` for anything else; nothing at all is an empty list."""
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise Refusal(400, f"`{what}` is no list of objects")
    return value


def as_text(content: object) -> str:
    """The text of a message, whatever form it has; what is no text is named in brackets."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(_part(part) for part in content)
    return json.dumps(content, ensure_ascii=False)


def _part(part: object) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, dict):
        for name in ("text", "refusal"):
            if isinstance(part.get(name), str):
                return str(part[name])
        return f"[{part.get('type', 'something that is no text')}]"
    return str(part)


def merged(messages: Iterable[Message]) -> tuple[Message, ...]:
    """What the assistant says in a row is one turn of it, as it was when it was said."""
    turns: list[Message] = []
    for message in messages:
        last = turns[-1] if turns else None
        if last is not None and last.role == "assistant" == message.role:
            text = "\n".join(part for part in (last.content, message.content) if part)
            turns[-1] = replace(last, content=text, tool_calls=last.tool_calls + message.tool_calls)
        else:
            turns.append(message)
    return tuple(turns)


def new_id(prefix: str) -> str:
    """An identifier as providers make them."""
    return f"{prefix}{secrets.token_hex(12)}"


def shown_input(answer: Completion, body: Mapping[str, Any]) -> int:
    """The tokens of the request as the agent is told them: counted, else about right. The meter never guesses."""
    told = answer.usage.input_tokens
    return len(json.dumps(body, default=str)) // _CHARACTERS_PER_TOKEN if told is None else told


def shown_output(answer: Completion) -> int:
    """The same of the answer."""
    told = answer.usage.output_tokens
    said: Sequence[str] = (answer.message.content, *(call.arguments for call in answer.message.tool_calls))
    return sum(map(len, said)) // _CHARACTERS_PER_TOKEN if told is None else told
