"""Recordings from a server of the real shape: polite, resumable, nothing that may not be had."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from running import termarena
from support.asciinema import Asciinema, Cast
from tasks.pull.servers import Reply, Site
from termarena.core.addresses import AddressPolicy
from termarena.core.errors import AddressRefused, FetchError, UsageError
from termarena.forge.ledger import Ledger
from termarena.forge.reading import read
from termarena.forge.retrieving import Retrieved, ServerPlan, Shelf, retrieve_from_server
from termarena.forge.retrieving.index import FILE, Index
from termarena.forge.retrieving.pages import parse_listing, parse_recording_page
from termarena.forge.retrieving.robots import parse_robots
from termarena.forge.retrieving.visiting import Manners, open_visitor

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CASTS = tuple(Cast(str(number), f"Session {number}", b"$ echo %d > a\n" % number) for number in range(101, 109))
QUICK = Manners(pause_s=0, backoff_s=0, tries=3)


@pytest.fixture
def server() -> Iterator[Asciinema]:
    running = Asciinema(CASTS)
    with running.running():
        yield running


def retrieve(server: Asciinema, folder: Path, plan: ServerPlan | None = None) -> Retrieved:
    with Ledger(folder / "forge") as ledger, open_visitor(AddressPolicy(), QUICK) as visitor:
        return retrieve_from_server(
            plan or ServerPlan(server.url, feeds=("recent",)), folder / "recordings", visitor, ledger, lambda *_: None
        )


def shelf_of(done: Retrieved, folder: Path) -> Shelf:
    return Shelf(folder / "recordings" / done.folder.rpartition("/")[2])


def test_a_server_is_listed_and_every_transcript_fetched_with_where_it_comes_from(
    server: Asciinema, tmp_path: Path
) -> None:
    done = retrieve(server, tmp_path)
    assert (done.pages, done.listed, done.fetched, done.failed, done.problems) == (3, 8, 8, 0, [])
    shelf = shelf_of(done, tmp_path)
    origin = shelf.get("101")
    assert origin is not None
    assert (origin.title, origin.author, origin.licence) == ("Session 101", "ann", None)
    assert (origin.environment, origin.views) == ("GNU/Linux • xterm-256color • bash", "1,234 views")
    assert (origin.cols, origin.rows, origin.version, origin.duration) == (100, 30, "2", "01:42")
    assert origin.description == "How to sort."
    transcript = read(shelf.folder / "101" / "recording.txt")
    assert (transcript.source, transcript.title) == (f"{server.url}/a/101", "Session 101")
    assert transcript.facts.recorded_at == "2026-03-01T10:00:00Z"
    assert not any(path.endswith((".cast", ".json")) for path in server.paths())
    assert server.requests[0].headers["User-Agent"] == "termarena"


def test_a_second_time_only_what_is_new_is_asked_for(server: Asciinema, tmp_path: Path) -> None:
    retrieve(server, tmp_path)
    server.requests.clear()
    assert retrieve(server, tmp_path).done == 0
    assert server.paths() == ["/robots.txt", "/explore/recordings/recent"]
    new = Cast("200")
    server.casts["200"] = new
    server.lists["recent"] = (new, *CASTS)
    server.requests.clear()
    done = retrieve(server, tmp_path)
    assert (done.listed, done.fetched, done.known) == (1, 1, 0)
    assert "/a/101.txt" not in server.paths()


def test_new_pages_that_were_not_read_are_read_the_next_time(server: Asciinema, tmp_path: Path) -> None:
    retrieve(server, tmp_path)
    new = tuple(Cast(str(number)) for number in range(201, 209))
    server.casts |= {one.id: one for one in new}
    server.lists["recent"] = (*new, *CASTS)
    first_page = ServerPlan(server.url, feeds=("recent",), most_pages=1)
    assert [retrieve(server, tmp_path, plan).fetched for plan in (first_page, None, None)] == [3, 5, 0]


def test_with_a_limit_no_more_of_a_list_is_read_than_that_takes(server: Asciinema, tmp_path: Path) -> None:
    few = ServerPlan(server.url, feeds=("recent",), most_recordings=2)
    assert [retrieve(server, tmp_path, few).fetched for _ in range(5)] == [2, 2, 2, 2, 0]
    server.requests.clear()
    retrieve(server, tmp_path / "other", few)
    assert [path for path in server.paths() if "explore" in path] == ["/explore/recordings/recent"]


def test_a_licence_allows_the_original_and_robots_still_count(server: Asciinema, tmp_path: Path) -> None:
    cast = b'{"version": 2, "width": 80, "height": 24}\n[0.1, "o", "hi"]\n'
    server.lists["recent"] = (Cast("1", original=cast), Cast("2", version=1, original=b"{}"))
    server.casts = {one.id: one for one in server.lists["recent"]}
    done = retrieve(server, tmp_path, ServerPlan(server.url, feeds=("recent",), licence="CC-BY-4.0"))
    shelf = shelf_of(done, tmp_path)
    first, second = shelf.get("1"), shelf.get("2")
    assert first is not None
    assert second is not None
    assert (first.file, first.licence) == ("recording.cast", "CC-BY-4.0")
    assert second.file == "recording.txt"  # its original is a .json file, which robots.txt keeps for itself
    assert "robots.txt" in done.problems[0]
    assert "/a/2.json" not in server.paths()
    assert read(shelf.folder / "1" / "recording.cast").licence == "CC-BY-4.0"


def test_robots_that_refuse_are_obeyed_and_robots_that_cannot_be_had_refuse(server: Asciinema, tmp_path: Path) -> None:
    server.robots = b"User-agent: *\nDisallow: /explore\n"
    done = retrieve(server, tmp_path)
    assert done.done == 0
    assert "robots.txt asks not to" in done.problems[0]
    assert server.paths() == ["/robots.txt"]
    server.faults["/robots.txt"] = [Reply(503)] * 3
    assert "answered 503, 3 times in a row" in retrieve(server, tmp_path).problems[0]


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/a/1", True),
        ("/a/1.txt", True),
        ("/a/1.json", False),
        ("/a/1.json?x", False),
        ("/private/open/x", True),
        ("/private/x", False),
        ("/exact", False),
        ("/exactly", True),
        ("/x/y/tail", False),
        ("/x/y/tails", True),
        ("/x/tail", True),
    ],
)
def test_rules_have_wildcards_ends_and_the_longest_counts(path: str, allowed: bool) -> None:  # noqa: FBT001 - a table
    rules = (
        b"User-agent: other\nDisallow: /\n\nUser-agent: x\nuser-agent: *\nDisallow: /a/*.json # no\nCrawl-delay: 2.5\n"
    )
    robots = parse_robots(rules + b"Disallow: /private\nAllow: /private/open\nDisallow: /exact$\nDisallow: /x/*/*l$\n")
    assert robots.allows(path) is allowed
    assert robots.delay_s == 2.5


def test_rules_for_our_own_name_come_before_those_for_everybody() -> None:
    robots = parse_robots(b"User-agent: *\nAllow: /\nUser-agent: TermArena\nDisallow: /a\n")
    assert not robots.allows("/a/1")


@pytest.mark.timeout(20)
def test_rules_that_cost_a_careless_reader_dearly_and_a_mark_of_the_byte_order() -> None:
    robots = parse_robots(b"\xef\xbb\xbfUser-agent: *\nDisallow: /private\nDisallow: /a/" + b"*a" * 30 + b"*b\n")
    assert robots.allows("/a/" + "a" * 64)
    assert not robots.allows("/private")


@pytest.mark.timeout(20)
def test_pages_that_are_made_to_break_their_reader() -> None:
    link = b'<link rel="alternate" type="application/x-asciicast" href="https://[x/a/1.cast">'
    assert parse_recording_page(link + b'<section class="info"><h2>Sort').title == "Sort"
    listing = parse_listing('<nav class="pagination"><a class="active">²</a></nav>'.encode(), "https://a/")
    assert listing.page is None
    deep = parse_listing(b'<div class="info"><a href="/a/1">' + b"<b>" * 200_000, "https://a/")
    assert [one.id for one in deep.recordings] == ["1"]


def test_a_recording_that_leads_to_a_private_network_stops_no_other_one(server: Asciinema, tmp_path: Path) -> None:
    server.faults["/a/103"] = [Reply(302, headers={"Location": "http://10.0.0.1/"})]
    done = retrieve(server, tmp_path)
    assert (done.fetched, done.failed) == (7, 1)
    assert "may not" in done.problems[0]


def test_a_busy_server_is_asked_again_and_a_broken_one_stops_no_other_recording(
    server: Asciinema, tmp_path: Path
) -> None:
    server.faults["/explore/recordings/recent"] = [Reply(429, headers={"Retry-After": "0"}), Reply(500)]
    server.faults["/a/101.txt"] = [Reply(200, b"x" * 50, cut_after=10)]
    server.faults["/a/102"] = [Reply(500)] * 3
    done = retrieve(server, tmp_path)
    assert (done.fetched, done.failed) == (7, 1)
    assert "/a/102: could not fetch" in done.problems[0]
    shelf = shelf_of(done, tmp_path)
    assert (shelf.folder / "101" / "recording.txt").read_bytes() == CASTS[0].text
    again = retrieve(server, tmp_path)
    assert (again.fetched, again.failed, again.pages) == (1, 0, 1)


def test_a_server_that_asks_for_too_long_a_pause_is_left(server: Asciinema, tmp_path: Path) -> None:
    server.faults["/a/101"] = [Reply(429, headers={"Retry-After": "7200"})]
    done = retrieve(server, tmp_path)
    assert (done.failed, done.fetched) == (1, 7)
    assert "come back in 7200 seconds" in done.problems[0]
    assert server.paths().count("/a/101") == 1


def test_lists_in_circles_end_and_ids_that_come_twice_are_one(server: Asciinema, tmp_path: Path) -> None:
    server.lists["recent"] = (*CASTS, CASTS[0], CASTS[0])
    server.goes_in_circles = True
    done = retrieve(server, tmp_path)
    assert (done.listed, done.fetched) == (8, 8)
    assert done.pages < 10


def test_names_that_lead_elsewhere_are_left_out(server: Asciinema, tmp_path: Path) -> None:
    hostile = (
        "/a/../../etc/passwd",
        "https://evil.example/a/5",
        "/a/%2e%2e",
        "//evil.example/a/5",
        "/a/x/y",
        "javascript:x",
    )
    server.extra_cards = "".join(f'<div class="info"><h3><a href="{href}">x</a></h3></div>' for href in hostile)
    server.lists["recent"] = CASTS[:1]
    done = retrieve(server, tmp_path)
    assert (done.listed, done.fetched) == (1, 1)
    assert "6 entries that lead to no recording" in done.problems[0]
    assert {path for path in server.paths() if path.startswith("/a/")} == {"/a/101", "/a/101.txt"}


def test_what_is_not_public_has_no_transcript_or_is_gone_is_not_kept(server: Asciinema, tmp_path: Path) -> None:
    server.casts["101"] = CASTS[0]._replace(is_public=False)
    server.casts["102"] = CASTS[1]._replace(text=None)
    del server.casts["103"]
    done = retrieve(server, tmp_path)
    assert (done.refused, done.missing, done.gone, done.fetched) == (1, 1, 1, 5)
    assert set(shelf_of(done, tmp_path).names()) == {"104", "105", "106", "107", "108"}


def test_refreshing_finds_what_was_withdrawn_and_takes_it_from_the_shelf(server: Asciinema, tmp_path: Path) -> None:
    retrieve(server, tmp_path)
    del server.casts["105"]
    done = retrieve(server, tmp_path, ServerPlan(server.url, "refresh", feeds=("recent",)))
    assert (done.fetched, done.gone, done.withdrawn) == (7, 1, [f"{server.url}/a/105"])
    assert "105" not in set(shelf_of(done, tmp_path).names())


def test_a_server_that_asks_for_a_login_withdraws_nothing(server: Asciinema, tmp_path: Path) -> None:
    retrieve(server, tmp_path)
    server.statuses = {"101": 401, "102": 403, "103": 410, "104": 451}
    done = retrieve(server, tmp_path, ServerPlan(server.url, "refresh", feeds=("recent",)))
    assert (done.refused, done.gone, done.fetched) == (3, 1, 4)
    assert done.withdrawn == [f"{server.url}/a/103", f"{server.url}/a/104"]
    assert done.problems == [
        f"{server.url}/a/101: it answered 401; what was retrieved earlier is kept",
        f"{server.url}/a/102: it answered 403; what was retrieved earlier is kept",
    ]
    assert set(shelf_of(done, tmp_path).names()) == {"101", "102", "105", "106", "107", "108"}


def test_repairing_mends_what_is_damaged_and_reads_no_list(server: Asciinema, tmp_path: Path) -> None:
    folder = shelf_of(retrieve(server, tmp_path), tmp_path).folder
    (folder / "101" / "recording.txt").write_text("other")
    (folder / "102" / "info.json").write_text("{")
    (folder / "103" / "recording.txt").unlink()
    server.requests.clear()
    done = retrieve(server, tmp_path, ServerPlan(server.url, "repair"))
    assert done.fetched == 3
    assert not any(path.startswith("/explore") for path in server.paths())
    assert (folder / "101" / "recording.txt").read_bytes() == CASTS[0].text


def test_what_was_taken_down_does_not_come_back(server: Asciinema, tmp_path: Path) -> None:
    digest = "sha256:" + hashlib.sha256(CASTS[1].text or b"").hexdigest()
    with Ledger(tmp_path / "forge") as ledger:
        ledger.block("sha256:0", f"{server.url}/a/101")
        ledger.block(digest, "a-file.txt")
    done = retrieve(server, tmp_path)
    assert (done.blocked, done.fetched) == (2, 6)
    assert "/a/101" not in server.paths()


def test_one_recording_by_its_page_and_no_other_path(server: Asciinema, tmp_path: Path) -> None:
    assert retrieve(server, tmp_path, ServerPlan(f"{server.url}/a/104")).fetched == 1
    with pytest.raises(UsageError, match="neither a server nor a recording"):
        retrieve(server, tmp_path, ServerPlan(f"{server.url}/~ann"))


def test_an_endless_page_is_not_read_to_its_end(
    server: Asciinema, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("termarena.forge.retrieving.server.LARGEST_RECORDING_BYTES", 1000)
    server.casts["101"] = CASTS[0]._replace(text=b"x" * 5000)
    done = retrieve(server, tmp_path)
    assert (done.failed, done.fetched) == (1, 7)
    assert "longer than 1000 bytes" in done.problems[0]


def test_a_redirect_is_followed_only_to_where_one_may_go() -> None:
    site = Site()
    with site.running(), open_visitor(AddressPolicy(), QUICK) as visitor:
        site.pages["/end"] = Reply(200, b"there")
        for name, target in {"ok": "/end", "meta": "http://169.254.169.254/x", "private": "http://10.0.0.1/"}.items():
            site.pages[f"/{name}"] = Reply(302, headers={"Location": target})
        site.pages["/file"] = Reply(302, headers={"Location": "file:///etc/passwd"})
        site.pages["/round"] = Reply(302, headers={"Location": "/round"})
        assert visitor.get(site.url + "/ok", limit_bytes=100).body == b"there"
        for name in ("meta", "private"):
            with pytest.raises(FetchError, match="leads to where it may not"):
                visitor.get(f"{site.url}/{name}", limit_bytes=100)
        site.pages["/odd"] = Reply(302, headers={"Location": "//[::1"})
        with pytest.raises(FetchError, match=r"no address|no whole answer"):
            visitor.get(site.url + "/odd", limit_bytes=100)
        with pytest.raises(FetchError, match="only http and https"):
            visitor.get(site.url + "/file", limit_bytes=100)
        with pytest.raises(FetchError, match="redirects"):
            visitor.get(site.url + "/round", limit_bytes=100)


def test_this_machine_is_not_offered_to_servers_out_there() -> None:
    site = Site()
    refusing = AddressPolicy(allows_loopback=False)
    with site.running(), open_visitor(refusing, QUICK) as visitor, pytest.raises(AddressRefused, match="own services"):
        visitor.get(site.url, limit_bytes=100)
    assert site.requests == []


@pytest.mark.timeout(120)
def test_killed_in_the_middle_the_same_command_goes_on(server: Asciinema, tmp_path: Path) -> None:
    server.faults["/a/104.txt"] = [Reply(200, b"x" * 100, cut_after=1, held=True)]
    command = ["forge", "retrieve", server.url, "--feed", "recent", "--pause", "0", "--json"]
    process = subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-m", "termarena", *command],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert server.reached.wait(60)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    server.released.set()
    server.requests.clear()
    done = termarena(*command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["fetched"], found["known"]) == (5, 0)
    assert {"/a/101", "/a/102", "/a/103"}.isdisjoint(server.paths())
    (place,) = (tmp_path / "forge" / "recordings").iterdir()
    with closing(Index(place / FILE)) as index:
        assert {entry.state for entry in index.entries()} == {"fetched"}
        assert len(index.entries()) == 8
