"""Whether addresses that a session fetches from still answer, where the rules let them be asked."""

from __future__ import annotations

import http.server
from typing import TYPE_CHECKING

import pytest

from support.serving import Quiet, serving
from support.transcripts import transcript
from termarena.forge.asking import Way, way_to
from termarena.forge.screening import Gate, ScreenRules, addresses, screen

if TYPE_CHECKING:
    from collections.abc import Iterator

RULES = ScreenRules(check_addresses=True)
SESSION = ("mkdir work", "seq 5 > work/list", "sort -r work/list > work/down", ("cat work/down", "5\n4\n3\n2\n1"))


class _Pages(Quiet, http.server.SimpleHTTPRequestHandler):
    def do_GET(self) -> None:
        status = {"/here": 200, "/gone": 410, "/busy": 503, "/by-get": 200, "/tool.git/info/refs": 200}
        moved = {"/moved": "/here", "/inside": "http://10.0.0.1/x", "/mail": "mailto:a@example.org", "/round": "/round"}
        path = self.path.partition("?")[0]
        self.send_response(302 if path in moved else status.get(path, 404))
        if path in moved:
            self.send_header("Location", moved[path])
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_HEAD(self) -> None:
        if self.path == "/by-get":
            self.send_response(405)
            self.end_headers()
        else:
            self.do_GET()


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A server that `there.invalid` leads to, as names of public servers lead to theirs."""
    monkeypatch.setenv("no_proxy", "*")

    def to_here(url: str) -> Way:
        return Way("there.invalid", port, "127.0.0.1") if "there.invalid" in url else way_to(url)

    monkeypatch.setattr(addresses, "way_to", to_here)
    with serving(_Pages) as port:
        yield f"http://there.invalid:{port}"


@pytest.mark.parametrize(
    ("path", "is_alive", "is_dead"),
    [
        *(("/here", True, False), ("/moved", True, False), ("/by-get", True, False), ("/busy", False, False)),
        *(("/gone", False, True), ("/none", False, True), ("/inside", False, True), ("/mail", False, True)),
        ("/round", False, True),
    ],
)
def test_what_an_address_says(root: str, path: str, is_alive: bool, is_dead: bool) -> None:  # noqa: FBT001 - a table
    found = addresses.reached(root + path)
    assert (found.is_alive, found.is_dead) == (is_alive, is_dead), found.why


def test_a_session_that_fetches_what_is_gone_is_refused(root: str) -> None:
    line = f"wget {root}/gone"
    (finding,) = [one for one in screen(transcript(*SESSION, line), RULES).findings if one.effect == "drop"]
    assert (finding.gate, finding.rule) == (Gate.REPRODUCIBILITY, "dead-address")
    assert finding.reason == f"{root}/gone is gone: it answers 410"
    assert finding.evidence[0].excerpt == line
    assert screen(transcript(*SESSION, line)).kept
    assert screen(transcript(*SESSION, f"wget {root}/here", f"git clone {root}/tool.git"), RULES).kept


def test_an_address_with_a_replaced_name_in_it_is_not_asked(root: str) -> None:
    session = transcript("cd /home/alice", *SESSION, f"wget {root}/alice/notes")
    assert screen(session, RULES).kept
