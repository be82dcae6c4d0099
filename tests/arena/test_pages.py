"""The pages in a real browser: they play, filter, fit a phone, take a keyboard, and nothing complains."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from support.arena_server import Server, served
from support.browsing import PATIENCE_MS, Scheme, check_page, open_page
from support.made_attempts import COMMANDS, made_attempt
from support.made_runs import Made, made_run
from termarena.arena.exporting import export_run
from termarena.core.errors import UsageError
from termarena.core.run_folder import RunFolder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.slow]

TRIAL = "/runs/first/one/1"


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    runs = tmp_path_factory.mktemp("arena") / "runs"
    names = {"one": "11", "two": "10", "three": "00", "four": "1?", "five": "11", "six": "11", "seven": "01"}
    view = made_run(runs / "first", names, Made(agent="good:Agent", model="acme/large", cost_usd=120.0))
    made_attempt(view.folder.attempt("one", 1), task="one")
    other = made_run(runs / "second", dict.fromkeys(names, "00"), Made(agent="poor:Agent", cost_usd=0.01))
    made_attempt(other.folder.attempt("one", 1), task="one", commands=COMMANDS | {41.0: "make none"})
    with served(runs) as server:
        yield server


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
    "/compare/one?first=first&second=second",
]


def _go_to(page: Page, server: Server, path: str) -> None:
    digest = server.json("/datasets")[0]["digest"]
    entrant = server.json("/runs/first")["run"]["entrant"]["id"]
    page.goto(server.url + path.format(digest=digest, entrant=entrant))


@pytest.mark.parametrize(
    ("path", "scheme"), [*((path, "light") for path in PAGES), ("/", "dark"), ("/runs/first", "dark"), (TRIAL, "dark")]
)
def test_every_page_is_accessible_and_fits_a_phone(browser: Browser, filled: Server, path: str, scheme: Scheme) -> None:
    with open_page(browser, scheme=scheme) as page:
        _go_to(page, filled, path)
        if path == TRIAL:
            page.wait_for_selector("#player[data-state=ready]")
        check_page(page)


def test_the_replay_plays_and_goes_with_the_steps(browser: Browser, filled: Server) -> None:
    with open_page(browser) as page:
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


def test_cost_against_accuracy_is_drawn_and_can_be_looked_at_closer(browser: Browser, filled: Server) -> None:
    with open_page(browser) as page:
        page.goto(filled.url + "/")
        drawn = page.get_by_role("group", name="Cost of a trial against accuracy, 2 entries")
        assert drawn.locator(".point").count() == 2
        button = page.get_by_role("button", name="Look closer")
        button.click()
        assert not drawn.is_visible()
        over = page.locator("figure .u-over").bounding_box()
        assert over is not None
        # The cheap one solves nothing: it is at the bottom, a little from the left.
        told = page.locator("figure [role=status]")
        for x in range(0, int(over["width"]), 20):
            page.mouse.move(over["x"] + x, over["y"] + over["height"] - 3)
            if "poor:Agent" in told.inner_text():
                break
        assert told.inner_text() == "poor:Agent: 0.0 % at $0.01 a trial"
        for x in range(int(over["width"]), 0, -20):  # the dear one, on the other side
            page.mouse.move(over["x"] + x, over["y"] + over["height"] * 0.3)
            if "good:Agent" in told.inner_text():
                break
        assert told.inner_text().endswith("at $120 a trial")
        check_page(page)
        button.click()
        assert drawn.is_visible()
        page.goto(filled.url + "/runs/first")
        expect(page.locator("svg.plot .ours")).to_contain_text("this run")


def test_what_an_agent_wrote_is_text(browser: Browser, filled: Server) -> None:
    with open_page(browser) as page:
        page.goto(filled.url + TRIAL)
        assert page.get_by_text("Do <i>this</i>.").is_visible()
        assert page.get_by_text("1 passed <script>alert(2)</script>").is_visible()
        assert page.locator("main b, main i").count() == 0
        for told in ("shell-startup", "test_more", "/app/out.txt"):
            assert page.get_by_text(told).first.is_visible()


def test_filters_filter_and_lead_to_trials(browser: Browser, filled: Server) -> None:
    with open_page(browser) as page:
        page.goto(filled.url + "/runs/first")
        assert page.locator(".matrix tbody tr").count() == 7
        page.get_by_label("Outcome").select_option("unscored")
        page.get_by_role("button", name="Filter").click()
        assert page.locator(".matrix tbody tr").count() == 1
        assert page.get_by_text("1 task of 7").is_visible()
        page.get_by_role("link", name="Attempt 1 at four: solved").click()
        assert page.get_by_role("heading", level=1).inner_text().startswith("four")


def test_the_keyboard_reaches_everything(browser: Browser, filled: Server) -> None:
    with open_page(browser) as page:
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


def test_two_runs_are_compared_from_theopen_page(browser: Browser, filled: Server) -> None:
    with open_page(browser) as page:
        page.goto(filled.url + "/runs/first")
        page.get_by_role("button", name="Compare").click()
        assert page.get_by_role("heading", level=1).inner_text() == "first is better than second"
        page.get_by_role("link", name="first attempts at one, side by side").click()
        assert page.get_by_text("Both began with the same 2 calls; then they part.").is_visible()
        assert page.get_by_text("make all", exact=True).is_visible()
        assert page.get_by_text("make none", exact=True).is_visible()


def test_an_exported_run_opens_without_a_server(browser: Browser, filled: Server, tmp_path: Path) -> None:
    out = tmp_path / "pages"
    made = export_run(RunFolder(filled.held.config.runs / "first"), out)
    assert made.pages == 1 + 14
    with open_page(browser) as page:
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


def test_colours_are_chosen_and_stay(browser: Browser, filled: Server) -> None:
    with open_page(browser, scheme="light") as page:
        page.goto(filled.url + "/runs")
        ground = "getComputedStyle(document.body).backgroundColor"
        light = page.evaluate(ground)
        button = page.get_by_role("button", name="Colours")
        for theme, is_dark in (("light", False), ("dark", True)):
            button.click()
            assert button.get_attribute("aria-label") == f"Colours: {theme}"
            assert (page.evaluate(ground) != light) == is_dark
        page.goto(filled.url + "/agents")
        # It is dark before the first line of the page is read: the script stands before the body, and is waited for.
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        assert page.evaluate("document.head.querySelector('script[src*=theme]').defer") is False
        button.click()
        assert page.evaluate(ground) == light


def test_a_large_recording_is_fetched_in_pieces(browser: Browser, tmp_path: Path) -> None:
    view = made_run(tmp_path / "runs" / "big", {"one": "1"})
    attempt = view.folder.attempt("one", 1)
    made_attempt(attempt, task="one")
    header = json.loads(attempt.cast().read_text().partition("\n")[0]) | {"width": 100, "height": 20}
    with attempt.cast().open("w") as file:
        file.write(json.dumps(header) + "\n")
        number = 0
        while file.tell() < 5 << 20:
            at = number / 100 + (60 if number > 100 else 0)
            if number % 1000 == 500:
                file.write(json.dumps([at, "m", f"place {number}"]) + "\n")
            file.write(json.dumps([at, "o", f"\x1b[32mline {number}\x1b[0m {'x' * 900}\r\n"]) + "\n")
            number += 1
    with served(tmp_path / "runs") as server, open_page(browser) as page:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url.rpartition("/")[2]))
        page.goto(server.url + "/runs/big/one/1")
        page.wait_for_selector("#player[data-state=ready]")
        expect(page.locator("#player .ap-term")).to_contain_text(f"line {number - 1}", timeout=PATIENCE_MS)
        index = server.json("/runs/big/trials/one/1/terminal.cast/segments/index.json")
        last = len(index["segments"]) - 1
        assert last > 5
        assert [label for _, label in index["markers"]] == [f"place {n}" for n in range(500, number, 1000)]
        assert page.locator("#player .ap-marker").count() == len(index["markers"])
        assert "terminal.cast" not in asked
        assert "2.json" not in asked
        assert f"{last}.json" in asked
        # A minute of silence is cut to two seconds, and steps know it.
        assert index["duration"] < (number / 100) + 3
        page.locator("#step-2 .seek").click()
        expect(page.locator("#step-2")).to_have_attribute("aria-current", "step", timeout=PATIENCE_MS)
        expect(page.locator("#player .ap-term")).not_to_contain_text(f"line {number - 1}", timeout=PATIENCE_MS)
