"""A real browser on pages of the arena: every complaint of it fails the test."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

Scheme = Literal["light", "dark"]
AXE = Path(__file__).parent.parent / "arena" / "axe" / "axe.min.js"
PATIENCE_MS = 60_000


@contextmanager
def open_page(browser: Browser, *, width: int = 1200, scheme: Scheme = "light") -> Iterator[Page]:
    """A page in a context of its own."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda told: complaints.append(told.text) if told.type in {"error", "warning"} else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    try:
        yield page
        assert complaints == []
    finally:
        context.close()


def check_page(page: Page) -> None:
    """It is accessible, and fits a phone, where it is accessible too."""
    # The page's policy lets in no script but its own; the debugger's door does.
    page.evaluate(AXE.read_text())
    _check_access(page)
    page.set_viewport_size({"width": 360, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.get_by_role("heading", level=1).is_visible()
    _check_access(page)


def _check_access(page: Page) -> None:
    found: dict[str, Any] = page.evaluate("axe.run({exclude: [['.replay']]})")
    told = [(one["id"], [node["html"][:200] for node in one["nodes"][:3]]) for one in found["violations"]]
    assert told == []
    assert len(found["passes"]) > 5
