"""The pages in a real browser: they play, filter, fit a phone, take a keyboard, and nothing complains."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest
from playwright.sync_api import expect, sync_playwright

from support.arena_server import Server, served
from support.made_attempts import made_attempt
from support.made_runs import Made, made_run
from termarena.arena.exporting import export_run
from termarena.core.errors import UsageError
from termarena.core.run_folder import RunFolder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.slow]

Scheme = Literal["light", "dark"]
AXE = Path(__file__).with_name("axe") / "axe.min.js"
PATIENCE_MS = 60_000
TRIAL = "/runs/first/one/1"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        yield made
        made.close()


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    runs = tmp_path_factory.mktemp("arena") / "runs"
    names = {"one": "11", "two": "10", "three": "00", "four": "1?", "five": "11", "six": "11", "seven": "01"}
    view = made_run(runs / "first", names, Made(agent="good:Agent", model="acme/large"))
    made_attempt(view.folder.attempt("one", 1), task="one")
    made_run(runs / "second", dict.fromkeys(names, "00"), Made(agent="poor:Agent"))
    with served(runs) as server:
        yield server


@contextmanager
def _page(browser: Browser, *, width: int = 1200, scheme: Scheme = "light") -> Iterator[Page]:
    """A page whose every complaint fails the test."""
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


PAGES = [
    "/",
    "/runs",
    "/runs/first",
    TRIAL,
    "/runs/second/one/1",
    "/tasks/one",
    "/agents",
    "/agents/{entrant}",
    "/datasets/{digest}",
    "/datasets/{digest}/tasks",
    "/compare?first=first&second=second",
]


def _go_to(page: Page, server: Server, path: str) -> None:
    digest = server.json("/datasets")[0]["digest"]
    entrant = server.json("/runs/first")["run"]["entrant"]["id"]
    page.goto(server.url + path.format(digest=digest, entrant=entrant))


@pytest.mark.parametrize(
    ("path", "scheme"), [*((path, "light") for path in PAGES), ("/", "dark"), ("/runs/first", "dark"), (TRIAL, "dark")]
)
def test_every_page_is_accessible(browser: Browser, filled: Server, path: str, scheme: Scheme) -> None:
    with _page(browser, scheme=scheme) as page:
        _go_to(page, filled, path)
        if path == TRIAL:
            page.wait_for_selector("#player[data-state=ready]")
        # The page's policy lets in no script but its own; the debugger's door does.
        page.evaluate(AXE.read_text())
        found: dict[str, Any] = page.evaluate("axe.run({exclude: [['.replay']]})")
        told = [(one["id"], [node["html"][:200] for node in one["nodes"][:3]]) for one in found["violations"]]
        assert told == []
        assert len(found["passes"]) > 5


@pytest.mark.parametrize("path", PAGES)
def test_every_page_fits_a_phone(browser: Browser, filled: Server, path: str) -> None:
    with _page(browser, width=360) as page:
        _go_to(page, filled, path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        assert page.get_by_role("heading", level=1).is_visible()


def test_the_replay_plays_and_goes_with_the_steps(browser: Browser, filled: Server) -> None:
    with _page(browser) as page:
        page.goto(filled.url + TRIAL)
        page.wait_for_selector("#player[data-state=ready]")
        expect(page.locator("#player .ap-term")).to_contain_text("did make all", timeout=PATIENCE_MS)
        page.locator("#step-2 .seek").click()
        expect(page.locator("#step-2")).to_have_attribute("aria-current", "step", timeout=PATIENCE_MS)
        expect(page.locator("#player .ap-term")).not_to_contain_text("make all", timeout=PATIENCE_MS)
        page.locator("#player .ap-term-text").focus()
        page.keyboard.press("Space")
        # Forty seconds of silence are cut to two.
        page.wait_for_selector("#player[data-state=ended]")
        expect(page.locator("#step-4")).to_have_attribute("aria-current", "step", timeout=PATIENCE_MS)


def test_what_an_agent_wrote_is_text(browser: Browser, filled: Server) -> None:
    with _page(browser) as page:
        page.goto(filled.url + TRIAL)
        assert page.get_by_text("Do <i>this</i>.").is_visible()
        assert page.get_by_text("1 passed <script>alert(2)</script>").is_visible()
        assert page.locator("main b, main i").count() == 0
        for told in ("shell-startup", "test_more", "/app/out.txt"):
            assert page.get_by_text(told).first.is_visible()


def test_filters_filter_and_lead_to_trials(browser: Browser, filled: Server) -> None:
    with _page(browser) as page:
        page.goto(filled.url + "/runs/first")
        assert page.locator(".matrix tbody tr").count() == 7
        page.get_by_label("Outcome").select_option("unscored")
        page.get_by_role("button", name="Filter").click()
        assert page.locator(".matrix tbody tr").count() == 1
        assert page.get_by_text("1 task of 7").is_visible()
        page.get_by_role("link", name="Attempt 1 at four: solved").click()
        assert page.get_by_role("heading", level=1).inner_text().startswith("four")


def test_the_keyboard_reaches_everything(browser: Browser, filled: Server) -> None:
    with _page(browser) as page:
        page.goto(filled.url + "/")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to content"
        page.keyboard.press("Enter")
        assert page.evaluate("location.hash") == "#main"
        page.goto(filled.url + "/runs/first")
        reached = set()
        for _ in range(40):
            page.keyboard.press("Tab")
            reached.add(
                page.evaluate("document.activeElement.getAttribute('aria-label') || document.activeElement.name")
            )
        assert {"outcome", "text", "Attempt 1 at five: solved"} <= reached


def test_two_runs_are_compared_from_the_page(browser: Browser, filled: Server) -> None:
    with _page(browser) as page:
        page.goto(filled.url + "/runs/first")
        page.get_by_role("button", name="Compare").click()
        assert page.get_by_role("heading", level=1).inner_text() == "first is better than second"


def test_an_exported_run_opens_without_a_server(browser: Browser, filled: Server, tmp_path: Path) -> None:
    out = tmp_path / "pages"
    made = export_run(RunFolder(filled.held.config.runs / "first"), out)
    assert made.pages == 1 + 14
    with _page(browser) as page:
        page.goto(made.index.as_uri())
        page.get_by_role("link", name="Attempt 1 at one: solved").click()
        page.wait_for_selector("#player[data-state=ready]")
        expect(page.locator("#player .ap-term")).to_contain_text("did make all", timeout=PATIENCE_MS)
        page.locator(".crumbs a").first.click()
        assert page.get_by_role("heading", level=1).inner_text().startswith("first")
    assert export_run(RunFolder(filled.held.config.runs / "first"), out).index.is_file()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine").write_text("kept")
    with pytest.raises(UsageError, match="something else"):
        export_run(RunFolder(filled.held.config.runs / "first"), tmp_path / "other")
