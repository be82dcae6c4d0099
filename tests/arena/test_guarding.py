"""What stands before every request."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import httpx
import pytest

from running import termarena
from support.arena_server import served, until
from support.made_runs import made_run
from termarena.arena import guarding
from termarena.arena.config import Rate
from termarena.arena.guarding import Buckets
from termarena.core.hosts import is_loopback

if TYPE_CHECKING:
    from pathlib import Path


def test_every_answer_says_what_a_browser_may_do_with_it(tmp_path: Path) -> None:
    with served(tmp_path / "runs") as server:
        for path in ("/", "/api/runs", "/nothing", "/assets/arena.css", "/openapi.json"):
            headers = server.client.get(path).headers
            policy = headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe-inline" not in policy
            assert headers["x-content-type-options"] == "nosniff"


def test_a_name_that_is_not_the_servers_is_refused(tmp_path: Path) -> None:
    with served(tmp_path / "runs", host_names=("arena.example",)) as server:
        for host, status in (("evil.example", 421), ("arena.example", 200), ("localhost:1", 200), ("", 421)):
            assert server.client.get("/api/runs", headers={"Host": host}).status_code == status


def test_a_page_of_another_site_may_not_write(tmp_path: Path) -> None:
    with served(tmp_path / "runs") as server:
        answer = server.client.put("/api/runs/a/archive", headers={"Origin": "https://evil.example"})
        assert answer.status_code == 403
        ours = server.client.put("/api/runs/a/archive", headers={"Origin": server.url})
        assert ours.status_code == 401


def test_words_are_bounded_before_anyone_asks_who_sends_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarding, "LARGEST_WORDS_BYTES", 1000)
    body = b'{"white": "' + b"x" * 2000 + b'"}'
    with served(tmp_path / "runs") as server:
        json_type, form_type = "application/json", "application/x-www-form-urlencoded"
        for path, kind in (("/api/battles", json_type), ("/battles", form_type), ("/agentbeats/agents", json_type)):
            headers = {"Content-Type": kind}
            assert server.client.post(path, content=body, headers=headers).status_code == 413
            pieces = (body[at : at + 100] for at in range(0, len(body), 100))  # their length is not told
            assert server.client.post(path, content=pieces, headers=headers).status_code in (400, 413)
        assert server.client.put("/api/runs/a/archive", content=body).status_code == 401


def test_too_many_requests_are_told_when_to_come_back(tmp_path: Path) -> None:
    with served(tmp_path / "runs", reads=Rate(per_s=0.001, burst=3)) as server:
        answers = [server.client.get("/api/runs") for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert int(answers[3].headers["retry-after"]) > 1


def test_tokens_come_back_with_time() -> None:
    buckets = Buckets(Rate(per_s=2, burst=1))
    assert buckets.take("a", at=0) == 0
    assert buckets.take("a", at=0) == pytest.approx(0.5)
    assert buckets.take("b", at=0) == 0
    assert buckets.take("a", at=0.6) == 0


def test_the_command_serves_until_it_is_interrupted(tmp_path: Path) -> None:
    made_run(tmp_path / "runs" / "mine", {"one": "1"})
    words = [sys.executable, "-m", "termarena", "serve", "--port", "0", "--json"]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as server:  # noqa: S603 - our own program
        try:
            assert server.stdout is not None
            url = json.loads(server.stdout.readline())["url"]
            with httpx.Client(base_url=url, timeout=60) as client:
                until(lambda: [run["slug"] for run in client.get("/api/runs").json()] == ["mine"])
            server.send_signal(signal.SIGINT)
            assert server.wait(60) == 0
        finally:
            server.kill()
    assert (tmp_path / "runs" / "arena.db").is_file()


def test_an_address_that_others_reach_is_meant(tmp_path: Path) -> None:
    refused = termarena("serve", "--host", "0.0.0.0", "--port", "0", cwd=tmp_path)  # noqa: S104 - refused
    assert (refused.returncode, "--public" in refused.stderr) == (2, True)
    assert [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "10.0.0.1")] == [  # noqa: S104 - as above
        True,
        True,
        True,
        False,
        False,
    ]
