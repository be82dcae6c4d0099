"""Long output, shortened for a model: its beginning and its end, with a word about what is missing between."""

from __future__ import annotations

__all__ = ["head_and_tail"]


def head_and_tail(text: str, limit: int, *, already_missing: int = 0) -> str:
    """At most about `limit` characters of a text, whole lines where it has some; `already_missing` bytes were cut
    before."""
    if len(text) <= limit and not already_missing:
        return text
    half = limit // 2
    head, tail = text[:half], text[max(len(text) - half, half) :]
    if already_missing and len(text) <= limit:
        head, tail = text[: len(text) // 2], text[len(text) // 2 :]
    head = head[: head.rfind("\n") + 1] or head
    cut = tail.find("\n") + 1
    tail = tail[cut:] if 0 < cut < len(tail) else tail
    missing = len(text) - len(head) - len(tail) + already_missing
    lines = f", {text.count(chr(10)) - head.count(chr(10)) - tail.count(chr(10))} lines" if not already_missing else ""
    return f"{head}\n[… {missing} characters{lines} are not shown …]\n{tail}"
