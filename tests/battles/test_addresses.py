"""Which addresses are reached, and who may speak to a server of ours."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import ipaddress
import os
import socket
from pathlib import Path

import httpx
import pytest

from battles.whites import White, white_at
from termarena.battles.addresses import AddressPolicy, open_http
from termarena.battles.cards import GREEN_CARD, make_card, read_card
from termarena.battles.serving import Place, serve
from termarena.cli.main import main
from termarena.core.errors import AddressRefused, UsageError

CARD = "/.well-known/agent-card.json"


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest/meta-data",
        "http://[fe80::1]/",
        "http://[::ffff:169.254.169.254]/",
        "http://10.0.0.1/",
        "http://192.168.1.1:8080/",
        "http://172.16.0.1/",
        "http://[fd00::1]/",
        "http://[fec0::1]/",
        "http://[2002:a9fe:a9fe::]/",
        "http://[2002:a00:1::1]/",
        "http://[64:ff9b::169.254.169.254]/",
        "http://[64:ff9b::a00:1]/",
        "http://[64:ff9b::a9fe:a9fe]/",
        "http://100.64.0.1/",
        "http://0.0.0.0/",
        "http://224.0.0.1/",
        "http://255.255.255.255/",
        "file:///etc/passwd",
        "ftp://example.org/",
    ],
)
async def test_addresses_that_are_nobodys_business_are_refused(url: str) -> None:
    async with open_http(AddressPolicy()) as http:
        with pytest.raises((AddressRefused, httpx.UnsupportedProtocol)):
            await http.get(url)


def test_private_networks_are_reached_by_permission_and_link_local_ones_never() -> None:
    policy = AddressPolicy.of(["10.1.0.0/16", "169.254.0.0/16"], allows_loopback=False)
    policy.check("here", ipaddress.ip_address("10.1.2.3"))
    policy.check("there", ipaddress.ip_address("93.184.216.34"))
    for address in ("10.2.0.1", "169.254.169.254", "127.0.0.1", "::1", "::ffff:10.2.0.1"):
        with pytest.raises(AddressRefused):
            policy.check("no", ipaddress.ip_address(address))
    AddressPolicy().check("me", ipaddress.ip_address("::1"))
    AddressPolicy.of(["::1/128"], allows_loopback=False).check("me", ipaddress.ip_address("::1"))
    AddressPolicy.of(["127.0.0.0/8"], allows_loopback=False).check("me", ipaddress.ip_address("127.0.0.1"))
    with pytest.raises(AddressRefused, match="does not appear"):
        AddressPolicy.of(["everything"])


async def test_a_redirect_is_checked_where_it_leads() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server, open_http(AddressPolicy()) as http:
        with pytest.raises(AddressRefused, match=r"169\.254\.169\.254"):
            await http.get(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")


@pytest.mark.parametrize(
    ("start", "leads_to", "is_refused"),
    [
        ("http://93.184.216.34/", "http://127.0.0.1:1/", True),
        ("http://93.184.216.34/", "http://[::1]:1/", True),
        ("http://93.184.216.34/", "http://[::ffff:127.0.0.1]:1/", True),
        ("http://93.184.216.34/", "http://10.1.0.1/", True),
        ("http://93.184.216.34/", "http://1.1.1.1/", False),
        ("http://10.1.0.1/", "http://127.0.0.1:1/", True),
        ("http://10.1.0.1/", "http://10.1.0.2/", False),
        ("http://10.1.0.1/", "http://1.1.1.1/", False),
        ("http://127.0.0.1:1/", "http://10.1.0.1/", False),
        ("http://127.0.0.1:1/", "http://127.0.0.1:2/", False),
    ],
)
async def test_a_redirect_leads_no_nearer_to_this_machine(
    monkeypatch: pytest.MonkeyPatch, start: str, leads_to: str, *, is_refused: bool
) -> None:
    """Answered without a network: no test reaches a public address."""
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(str(request.url))
        hops = {
            1: httpx.Response(302, headers={"Location": "/again"}),
            2: httpx.Response(302, headers={"Location": leads_to}),
        }
        return hops.get(len(asked), httpx.Response(200))

    monkeypatch.setattr(httpx, "AsyncHTTPTransport", lambda **_: httpx.MockTransport(answer))
    async with open_http(AddressPolicy.of(["10.1.0.0/16"])) as http:
        if is_refused:
            with pytest.raises(AddressRefused, match="nearer to this machine"):
                await http.get(start)
        else:
            assert (await http.get(start)).status_code == 200
    assert len(asked) == (2 if is_refused else 3)


async def test_a_name_that_was_far_away_is_not_followed_to_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    given = iter(["93.184.216.34", "127.0.0.1"])

    async def resolve(*_: object, **__: object) -> list[tuple[int, int, int, str, tuple[str, int]]]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(given), 80))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
    monkeypatch.setattr(httpx, "AsyncHTTPTransport", lambda **_: httpx.MockTransport(lambda _: httpx.Response(200)))
    async with open_http(AddressPolicy()) as http:
        assert (await http.get("http://agent.example/")).status_code == 200
        with pytest.raises(AddressRefused, match="nearer to this machine"):
            await http.get("http://agent.example/")


def _connected_to(peer: tuple[str, int]) -> socket.socket:
    """The connection of this process whose other end this is."""
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            if str(entry.readlink()).startswith("socket:"):
                found = socket.socket(fileno=os.dup(int(entry.name)))
                with contextlib.suppress(OSError):
                    if found.getpeername() == peer:
                        return found
                found.close()
    raise AssertionError(f"no connection with {peer}")


async def test_an_answer_in_pieces_waits_for_nobody() -> None:
    """Else each turn would take 40 ms more: until the kernel acknowledges the first piece by itself."""
    async with white_at(White()) as url, open_http(AddressPolicy()) as http:
        for _ in range(20):  # so that the kernel takes it for a dialogue, in which acknowledgements can wait
            await http.get(url + CARD)
        here = ("127.0.0.1", int(url.rpartition(":")[2]))
        with _connected_to(here) as client:
            assert client.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK) == 1
            name = client.getsockname()
        with _connected_to(name) as server:
            assert server.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1


async def test_a_compressed_answer_is_not_unpacked() -> None:
    asked: list[bytes] = []
    packed = gzip.compress(b"0" * (64 << 20))

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(packed)}\r\n\r\n"
        writer.write(head.encode() + packed)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server, open_http(AddressPolicy()) as http:
        with pytest.raises(httpx.DecodingError, match="not asked for"):
            await http.get(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
    assert b"accept-encoding: identity" in asked[0].lower()


async def test_a_name_is_checked_by_its_address_and_connected_to_that() -> None:
    async with white_at(White()) as url:
        named = url.replace("127.0.0.1", "localhost")
        async with open_http(AddressPolicy()) as http:
            assert (await http.get(named + CARD)).status_code == 200
        async with open_http(AddressPolicy(allows_loopback=False)) as http:
            with pytest.raises(AddressRefused, match="this machine's own"):
                await http.get(named + CARD)


async def test_the_card_is_at_both_places_and_speaks_both_versions() -> None:
    async with white_at(White()) as url, httpx.AsyncClient() as http:
        new, old = [(await http.get(url + path)).json() for path in (CARD, "/.well-known/agent.json")]
        assert (await http.get(f"{url}/healthz")).json() == {"status": "ok"}
    assert new == old
    assert [one["protocolVersion"] for one in new["supportedInterfaces"]] == ["1.0", "0.3"]
    assert (new["url"], new["protocolVersion"], new["preferredTransport"]) == (url, "0.3", "JSONRPC")


async def test_with_a_key_only_who_has_it_is_heard_and_the_card_says_so() -> None:
    key = "a-long-enough-key-for-tests"
    hello = {"jsonrpc": "2.0", "id": "1", "method": "ListTasks", "params": {}}
    async with serve(White(), GREEN_CARD, Place(key=key)) as served, httpx.AsyncClient() as http:
        card = (await http.get(served.url + CARD)).json()
        told = [
            (await http.post(served.url, json=hello, headers={"A2A-Version": "1.0", **headers})).status_code
            for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Bearer {key}"})
        ]
        big = await http.post(served.url, content=b"x" * (17 << 20), headers={"Authorization": f"Bearer {key}"})
    assert told == [401, 401, 200]
    assert big.status_code == 413
    assert card["securitySchemes"]["bearer"]
    assert key not in str(card)
    assert key not in repr(Place(key=key))


async def test_requests_for_other_names_are_not_ours() -> None:
    async with white_at(White()) as url, httpx.AsyncClient() as http:
        port = url.rpartition(":")[2]
        for host, status in [
            (f"localhost:{port}", 200),
            (f"127.0.0.1:{port}", 200),
            ("evil.example", 421),
            (f"evil.example:{port}", 421),
            ("127.0.0.1:1", 421),
        ]:
            assert (await http.get(url + CARD, headers={"Host": host})).status_code == status, host
        page = await http.get(url + CARD, headers={"Origin": "http://evil.example"})
        own = await http.get(url + CARD, headers={"Origin": f"http://localhost:{port}"})
    assert (page.status_code, own.status_code) == (403, 200)


def test_beyond_loopback_a_key_is_mandatory(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("green", "white"):
        assert main([command, "--host", "0.0.0.0", "--port", "0"]) == 2  # noqa: S104 - that it is refused is the test
        assert "a key is needed" in capsys.readouterr().err
    with pytest.raises(UsageError, match="a key is needed"):
        Place(host="192.0.2.1").check()
    Place(host="192.0.2.1", key="a-long-enough-key-for-tests").check()


def test_a_card_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "card.toml"
    path.write_text(
        'name = "Mine"\ndescription = "Referees."\nversion = "7"\n[capabilities]\nstreaming = false\n'
        '[[skills]]\nid = "a"\nname = "A"\ndescription = "a"\ntags = ["x"]\n'
    )
    card = make_card(read_card(path), "http://127.0.0.1:1")
    assert (card.name, card.version, card.capabilities.streaming, card.skills[0].id) == ("Mine", "7", False, "a")
    path.write_text('name = "Mine"\ndescription = "x"\nskils = []\n')
    with pytest.raises(UsageError, match="skills: Field required"):
        read_card(path)
    with pytest.raises(UsageError, match="cannot read"):
        read_card(tmp_path / "none.toml")
