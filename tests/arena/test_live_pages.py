"""The pages of battles, proofs and the forge in a real browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from support.arena_server import served
from support.battle_ground import Held, battling_server, white_served
from support.browsing import PATIENCE_MS, Scheme, check_page, open_page
from support.made_proofs import fill_forge, proof_named
from support.made_runs import Made, made_run
from termarena.proof.faults import Fault
from termarena.proof.report import write_proof

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser

    from support.arena_server import Server

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.slow]
SEEN = "echo seen-$((40+2)) && echo 1 >/app/one.txt"


@pytest.mark.needs("user-namespaces")
def test_a_battle_is_begun_and_watched_on_its_page(browser: Browser, runs: Path, home: Path) -> None:
    held = Held(first={"kind": "exec_request", "command": SEEN, "timeout": 30})
    with white_served(lambda turn, _: held(turn)) as white, battling_server(runs, home) as server:
        key = str(server.client.headers["Authorization"]).removeprefix("Bearer ")
        with open_page(browser) as page, open_page(browser) as other:
            page.goto(server.url + "/battles")
            page.get_by_label("Address").fill(white)
            page.get_by_label("Name").fill("Typist")
            page.locator("form[action='/contenders'] input[name=key]").fill(key)
            page.get_by_role("button", name="Register").click()
            expect(page.get_by_role("row", name="Typist")).to_contain_text("alive", timeout=PATIENCE_MS)
            page.get_by_label("Tasks").fill("one")
            page.locator("form[action='/battles'] input[name=key]").fill(key)
            page.get_by_role("button", name="Begin").click()
            expect(page.get_by_role("button", name="one/1")).to_be_visible(timeout=PATIENCE_MS)
            expect(page.locator("#state")).to_have_text("running", timeout=PATIENCE_MS)
            other.goto(page.url)
            expect(other.get_by_role("button", name="one/1")).to_have_attribute(
                "aria-pressed", "true", timeout=PATIENCE_MS
            )
            check_page(other)
            held.go_on()
            expect(page.locator("#screen .ap-term")).to_contain_text("seen-42", timeout=PATIENCE_MS)
            expect(page.locator("#feed")).to_contain_text("$ echo seen-$((40+2))", timeout=PATIENCE_MS)
            held.may_go_on.set()
            for one in (page, other):
                expect(one.locator("#state")).to_have_text("finished", timeout=PATIENCE_MS)
                expect(one.get_by_text("1 of 1", exact=True).first).to_be_visible(timeout=PATIENCE_MS)
            expect(page.locator("#feed")).to_contain_text("one: solved", timeout=PATIENCE_MS)
            check_page(page)
        server.look()
        with open_page(browser, scheme="dark") as page:
            page.goto(server.url + "/battles")
            check_page(page)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    place = tmp_path_factory.mktemp("shown")
    made_run(place / "runs" / "mine", {"easy": "11"}, Made(digests={"easy": "task1:easy"}))
    (place / "proofs" / "easy").mkdir(parents=True)
    (place / "proofs" / "hard").mkdir()
    faults = (Fault(rule="weak-tests", message="Half of <them> pass."),)
    write_proof(place / "proofs" / "easy" / "proof.json", proof_named("easy", letter="C", faults=faults))
    write_proof(place / "proofs" / "hard" / "proof.json", proof_named("hard"))
    fill_forge(place / "forge")
    with served(place / "runs", proofs=place / "proofs", forge=place / "forge") as server:
        yield server


@pytest.mark.parametrize(
    ("path", "scheme"),
    [
        ("/proofs", "light"),
        ("/proofs/task1:easy", "dark"),
        ("/tasks/easy", "light"),
        ("/forge", "dark"),
    ],
)
def test_pages_of_proofs_and_forge_are_accessible(browser: Browser, shown: Server, path: str, scheme: Scheme) -> None:
    with open_page(browser, scheme=scheme) as page:
        page.goto(shown.url + path)
        check_page(page)


def test_from_the_summary_to_a_card(browser: Browser, shown: Server) -> None:
    with open_page(browser) as page:
        page.goto(shown.url + "/")
        page.get_by_role("link", name="Proofs").click()
        page.get_by_role("link", name="easy").click()
        assert page.get_by_role("heading", level=1).inner_text() == "easy"
        assert page.get_by_role("img", name="Grade C").is_visible()
        assert page.get_by_text("Half of <them> pass.").is_visible()
