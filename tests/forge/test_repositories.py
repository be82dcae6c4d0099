"""Repositories that a session cloned, fetched as they were on its day."""

from __future__ import annotations

import base64
import http.client
import http.server
import os
import re
import socket
import subprocess
import threading
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from support.serving import Quiet, serving
from support.sessions import SHORT, command, session
from termarena.core.errors import RecordingRefused
from termarena.forge import asking, repositories
from termarena.forge.asking import Way
from termarena.forge.draft import synthesize
from termarena.forge.linking import linked_to, works_in
from termarena.forge.making import Making, MakingConfig
from termarena.forge.manifests import Needs, needs_of
from termarena.forge.repositories import Clone, RepositoryRules, clone_of, fetch_repository
from termarena.forge.taskfiles import write_environment
from termarena.forge.transcript import Facts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from termarena.forge.bench import Bench

pytestmark = pytest.mark.needs("git")

URL = "https://git.example.org/ada/tool.git"
MARCH = "2021-03-01T12:00:00Z"


def _commit(folder: Path, day: str, **files: str) -> str:
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    stamp = {"GIT_AUTHOR_DATE": f"{day}T08:00:00Z", "GIT_COMMITTER_DATE": f"{day}T08:00:00Z"}
    who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    for words in (["add", "-A"], [*who, "commit", "-qm", f"Work of {day}"]):
        subprocess.run(["git", *words], cwd=folder, check=True, env={**os.environ, **stamp})  # noqa: S603, S607 - our own
    told = subprocess.run(["git", "rev-parse", "HEAD"], cwd=folder, check=True, capture_output=True, text=True)  # noqa: S607 - as above
    return told.stdout.strip()


@pytest.fixture
def served(tmp_path: Path) -> Path:
    """A repository with two commits, the second after the recording's day, as a server would have it."""
    work = tmp_path / "work"
    subprocess.run(["git", "init", "-qb", "trunk", work], check=True)  # noqa: S603, S607 - our own
    _commit(work, "2021-02-01", README__md="old\n", requirements__txt="requests==2.25.1  # as then\n-e .\n")
    _commit(work, "2022-02-01", README__md="new\n", LICENSE="MIT\n")
    bare = tmp_path / "srv" / "ada" / "tool.git"
    subprocess.run(["git", "clone", "-q", "--bare", work, bare], check=True)  # noqa: S603, S607 - our own
    subprocess.run(["git", "update-server-info"], cwd=bare, check=True)  # noqa: S607 - as above
    return tmp_path / "srv"


@pytest.fixture
def http_root(served: Path) -> Iterator[str]:
    with serving(partial(Quiet, directory=str(served))) as port:
        yield f"http://127.0.0.1:{port}/"


def test_a_repository_comes_as_it_was_on_the_day(http_root: str, tmp_path: Path) -> None:
    rules = RepositoryRules(fetch=True, instead_of={"https://git.example.org/": http_root})
    found = fetch_repository(Clone(URL, "/app/tool"), MARCH, rules, tmp_path / "cache")
    assert (found.branch, found.licence) == ("trunk", None)
    assert found.needs == Needs(debian=("python3", "python3-pip"), python=("requests==2.25.1",))
    told = subprocess.run(["git", "bundle", "list-heads", found.bundle], capture_output=True, text=True, check=True)  # noqa: S603, S607 - our own
    assert told.stdout.split() == [found.commit, f"refs/forge/{found.commit}"]
    assert not list((tmp_path / "cache").rglob("README.md"))
    again = fetch_repository(Clone(URL, "/app/tool"), "2023-01-01T00:00:00Z", rules, tmp_path / "cache")
    assert again.commit != found.commit
    assert again.names == {"README.md", "requirements.txt", "LICENSE"}
    assert again.licence == "LICENSE"


def test_a_repository_that_lists_more_than_memory_holds_is_refused(served: Path, tmp_path: Path) -> None:
    """Trees that name one other tree ten times each: a hundred thousand files out of six objects."""
    bare = served / "ada" / "tool.git"

    def git(*words: str, given: str = "") -> str:
        who = dict.fromkeys(("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"), "Ada")
        who |= dict.fromkeys(("GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"), "a@example.org")
        who |= dict.fromkeys(("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), "2021-02-02T08:00:00Z")
        done = subprocess.run(  # noqa: S603 - our own
            ["git", *words],  # noqa: S607 - as above
            cwd=bare,
            check=True,
            input=given,
            capture_output=True,
            text=True,
            env={**os.environ, **who},
        )
        return done.stdout.strip()

    below = "100644 blob " + git("hash-object", "-w", "--stdin", given="x\n")
    for _ in range(5):
        below = "040000 tree " + git("mktree", given="".join(f"{below}\t{number}\n" for number in range(10)))
    git("update-ref", "refs/heads/trunk", git("commit-tree", "-m", "Grown", below.split()[-1]))
    rules = RepositoryRules(
        fetch=True, instead_of={"https://git.example.org/": f"file://{served}/"}, most_bytes=1 << 18
    )
    with pytest.raises(RecordingRefused, match="git ls-tree writes too much: at most 512 KiB"):
        fetch_repository(Clone(URL, "/app/tool"), MARCH, rules, tmp_path / "cache")


def test_a_cache_may_be_named_from_where_one_is(
    http_root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rules = RepositoryRules(fetch=True, instead_of={"https://git.example.org/": http_root})
    assert fetch_repository(Clone(URL, "/app/tool"), MARCH, rules, Path("forge/cache")).bundle.is_file()


@contextmanager
def _redirecting(to: str) -> Iterator[int]:
    """A server that sends every question on; its port."""

    class Redirecting(Quiet, http.server.SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(302)
            self.send_header("Location", to.rstrip("/") + self.path)
            self.end_headers()

    with serving(Redirecting) as port:
        yield port


@pytest.fixture
def invalid_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that end with .invalid lead to this machine, as those of public servers lead to theirs."""
    monkeypatch.setenv("no_proxy", "*")
    really = repositories.looked_up

    def looked_up(url: str, rules: RepositoryRules) -> Way | None:
        parts = urlsplit(url)
        is_ours = str(parts.hostname).endswith(".invalid")
        return Way(str(parts.hostname), parts.port or 80, "127.0.0.1") if is_ours else really(url, rules)

    monkeypatch.setattr(repositories, "looked_up", looked_up)


@pytest.mark.usefixtures("invalid_names")
def test_a_repository_that_has_moved_is_fetched_from_where_it_is(http_root: str, tmp_path: Path) -> None:
    rules = RepositoryRules(fetch=True)
    port = http_root.rstrip("/").rpartition(":")[2]
    with _redirecting(f"http://new.invalid:{port}") as old:
        clone = Clone(f"http://old.invalid:{old}/ada/tool.git", "/app/tool")
        found = fetch_repository(clone, MARCH, rules, tmp_path / "cache")
    assert (found.branch, found.clone.url) == ("trunk", clone.url)
    assert "README.md" in found.names


@pytest.mark.usefixtures("invalid_names")
def test_a_name_that_has_another_address_at_a_second_look_is_not_asked_there(http_root: str, tmp_path: Path) -> None:
    """git would look the name up again: it is told the one address."""
    port = http_root.rstrip("/").rpartition(":")[2]
    clone = Clone(f"http://git.invalid:{port}/ada/tool.git", "/app/tool")
    assert fetch_repository(clone, MARCH, RepositoryRules(fetch=True), tmp_path / "cache").branch == "trunk"


@pytest.mark.usefixtures("invalid_names")
@pytest.mark.parametrize(
    ("to", "why"),
    [
        ("http://127.0.0.1:9", "not at a public address"),
        ("http://169.254.169.254/latest", "not at a public address"),
        ("file:///etc", "where no repository is"),
    ],
)
def test_a_server_that_leads_to_where_nobody_may_go_is_not_followed(to: str, why: str, tmp_path: Path) -> None:
    with _redirecting(to) as port:
        clone = Clone(f"http://git.invalid:{port}/ada/tool.git", "/app/tool")
        with pytest.raises(RecordingRefused, match=why):
            fetch_repository(clone, MARCH, RepositoryRules(fetch=True), tmp_path / "cache")


@contextmanager
def _proxying(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A proxy of the environment that knows names which nobody here can look up; what it is asked for."""
    asked: list[str] = []

    class Proxying(Quiet, http.server.SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            asked.append(str(parts.hostname))
            onward = http.client.HTTPConnection("127.0.0.1", parts.port or 80, timeout=30)
            onward.request("GET", f"{parts.path}?{parts.query}")
            answer = onward.getresponse()
            content = answer.read()
            self.send_response(answer.status)
            for name in ("Content-Type", "Location"):
                if (value := answer.getheader(name)) is not None:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            onward.close()

        def do_CONNECT(self) -> None:
            asked.append(f"{self.path} {self.headers['Proxy-Authorization']}")
            self.send_response(200)
            self.end_headers()
            asked.append(self.rfile.read(1).hex())
            self.close_connection = True

    really = socket.getaddrinfo

    def without_names(host: str, *words: Any, **named: Any) -> Any:  # noqa: ANN401 - as it is called
        if not re.fullmatch(r"[\d.]+", host):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return really(host, *words, **named)

    monkeypatch.setattr(socket, "getaddrinfo", without_names)
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with serving(Proxying) as port:
        for name in ("http_proxy", "https_proxy"):
            monkeypatch.setenv(name, f"http://ada:pass%20word@127.0.0.1:{port}")
        yield asked


def test_behind_a_proxy_a_repository_that_has_moved_is_fetched_from_where_it_is(
    http_root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = http_root.rstrip("/").rpartition(":")[2]
    with _redirecting(f"http://new.invalid:{port}") as old, _proxying(monkeypatch) as asked:
        clone = Clone(f"http://old.invalid:{old}/ada/tool.git", "/app/tool")
        assert fetch_repository(clone, MARCH, RepositoryRules(fetch=True), tmp_path / "cache").branch == "trunk"
    assert asked[:2] == ["old.invalid", "new.invalid"]
    assert set(asked) == {"old.invalid", "new.invalid"}


@pytest.mark.parametrize("to", ["http://127.0.0.1:9", "http://10.0.0.1", "http://metadata.internal", "http://intranet"])
def test_behind_a_proxy_nobody_is_led_to_where_nobody_may_go(
    to: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _redirecting(to) as port, _proxying(monkeypatch) as asked:
        clone = Clone(f"http://git.invalid:{port}/ada/tool.git", "/app/tool")
        with pytest.raises(RecordingRefused, match="not at a public address"):
            fetch_repository(clone, MARCH, RepositoryRules(fetch=True), tmp_path / "cache")
    assert asked == ["git.invalid"]


def test_behind_a_proxy_what_is_encrypted_stays_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with _proxying(monkeypatch) as asked:
        way = repositories.looked_up("https://git.invalid/x", RepositoryRules())
        assert way is not None
        assert asking.moved_to("https://git.invalid/x", way) is None
    login = base64.b64encode(b"ada:pass word").decode()
    assert asked == [f"git.invalid:443 Basic {login}", "16"]  # the first byte of a TLS handshake


def test_a_server_that_answers_byte_by_byte_is_not_listened_to_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte comes well before the time is over; the last ones lead elsewhere."""
    monkeypatch.setattr(asking, "TIMEOUT_S", 1)
    gone = threading.Event()

    def drip(server: socket.socket) -> None:
        with server.accept()[0] as asked, suppress(OSError):
            asked.sendall(b"HTTP/1.1 302 Found\r\nX-Slow: ")
            for _ in range(80):
                gone.wait(0.05)
                asked.sendall(b"a")
            asked.sendall(b"\r\nLocation: http://new.invalid/x/info/refs?service=git-upload-pack\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=drip, args=(server,))
        thread.start()
        port = server.getsockname()[1]
        assert asking.moved_to(f"http://git.invalid:{port}/x", Way("git.invalid", port, "127.0.0.1")) is None
        gone.set()
        thread.join()


def test_a_server_that_never_answers_leaves_no_process_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(repositories, "FETCH_TIMEOUT_S", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        root = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        rules = RepositoryRules(fetch=True, instead_of={"https://git.example.org/": root})
        with pytest.raises(RecordingRefused, match="git ls-remote took more than 1 s"):
            fetch_repository(Clone(URL, "/app/tool"), MARCH, rules, tmp_path / "cache")
        silent.settimeout(10)
        asked, _ = silent.accept()
        with asked:
            asked.settimeout(10)
            while asked.recv(4096):  # until whoever asked is gone
                pass


@pytest.mark.parametrize(
    ("address", "pinned"),
    [
        ("93.184.215.14", "git.example.org:443:93.184.215.14"),
        ("2606:2800:21f::1", "git.example.org:443:[2606:2800:21f::1]"),
        ("::ffff:10.0.0.1", None),
        ("2002:a00:1::", None),
        ("224.0.0.1", None),
        ("169.254.169.254", None),
    ],
)
def test_only_public_addresses_are_looked_up(monkeypatch: pytest.MonkeyPatch, address: str, pinned: str | None) -> None:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [(0, 0, 0, "", (address, 443))])
    if pinned is not None:
        way = repositories.looked_up(URL, RepositoryRules())
        assert way is not None
        assert way.pinned == pinned
        return
    with pytest.raises(RecordingRefused, match="not at a public address"):
        repositories.looked_up(URL, RepositoryRules())


@pytest.mark.parametrize(
    ("clone", "day", "rules", "reason"),
    [
        (Clone(URL, "/app/tool"), "2020-01-01T00:00:00Z", {}, "no commit as old as the recording"),
        (Clone(URL, "/app/tool"), None, {}, "does not tell on which day"),
        (Clone(URL, "/app/tool", "--upload-pack=id"), MARCH, {}, "odd name"),
        (Clone(URL.replace("tool", "none"), "/app/none"), MARCH, {}, "git ls-remote failed"),
        (Clone(URL, "/app/tool"), MARCH, {"most_bytes": 1024}, "failed|at most"),
        (Clone("http://127.0.0.1:9/x", "/app/x"), MARCH, {}, "not at a public address"),
    ],
    ids=["too young", "no day", "hostile branch", "not there", "too large", "this machine"],
)
def test_what_is_not_fetched(
    served: Path, tmp_path: Path, clone: Clone, day: str | None, rules: dict[str, int], reason: str
) -> None:
    instead = RepositoryRules.model_validate(
        {"fetch": True, "instead_of": {"https://git.example.org/": f"file://{served}/"}, **rules}
    )
    with pytest.raises(RecordingRefused, match=reason):
        fetch_repository(clone, day, instead, tmp_path / "cache")


@pytest.mark.parametrize(
    ("text", "clone"),
    [
        (f"git clone {URL}", Clone(URL, "/app/tool")),
        (f"git clone --depth 1 -b dev {URL} here", Clone(URL, "/app/here", "dev")),
        (f"git clone --recursive {URL}", None),
        ("git clone git@example.org:ada/tool.git", None),
        ("git clone --depth=1", None),
        ("git fetch", None),
    ],
)
def test_clones_of_a_command(text: str, clone: Clone | None) -> None:
    assert clone_of(tuple(text.split()), "/app") == clone


def test_manifests_that_cannot_be_read_ask_for_their_tools() -> None:
    texts = {"package.json": "[" * 100_000, "pyproject.toml": "project = 3\n", "Makefile": "", "go.mod": "x"}
    assert needs_of(texts) == Needs(debian=("golang-go", "make", "nodejs", "npm", "python3", "python3-pip"))
    pinned = {"package.json": '{"dependencies": {"left-pad": "^1.3.0", "x; rm": "1"}}'}
    assert needs_of(pinned).node == ("left-pad@^1.3.0",)


SESSION = session(
    "Count the words of a tool's page",
    command(f"git clone {URL}", "Cloning into 'tool'...\n"),
    "cd tool",
    command("cat README.md", "old\n"),
    "wc -w < README.md > ../words.txt",
    "sed -i s/old/older/ README.md",
    facts=Facts(recorded_at=MARCH),
)


@pytest.mark.needs("user-namespaces")
async def test_a_session_begins_on_its_repository(served: Path, bench: Bench, tmp_path: Path) -> None:
    rules = RepositoryRules(fetch=True, instead_of={"https://git.example.org/": f"file://{served}/"})
    with pytest.raises(RecordingRefused, match=r"\[repositories\] in forge.toml"):
        await Making(SESSION, bench, tmp_path / "no", MakingConfig(screen=SHORT)).make(tmp_path / "out")
    making = Making(SESSION, bench, tmp_path / "yes", MakingConfig(screen=SHORT, repositories=rules))
    facts = await making.test()
    assert {(fact.probe, fact.path): fact.value for fact in facts}["text", "/app/words.txt"] == "1\n"
    draft, folder = making.draft, tmp_path / "task"
    assert draft is not None
    write_environment(draft, folder)
    assert f'url = "{URL}"' in (folder / "task.toml").read_text()
    assert "git" not in draft.solution
    recipe = (folder / "environment" / "Dockerfile").read_text()
    assert "pip3 install --no-cache-dir --break-system-packages requests==2.25.1" in recipe


def test_a_session_that_never_touches_the_repository_does_not_begin_on_it() -> None:
    steps = synthesize(session("Elsewhere", "mkdir out", "cp notes.txt out/")).steps
    assert not works_in(steps, {"README.md", "src/main.c"}, "/app")
    lists = synthesize(session("Lists", "mkdir -p out", "ls -l * > out/all")).steps
    assert not works_in(lists, {"README.md", "src/main.c", ""}, "/app")
    for text in (
        *("cat README.md > x", "ls src > x", "git log > x", "./src/main.c > x"),
        *("wc -l < README.md > x", "echo more >> README.md", "cat src/*.c > x"),
    ):
        assert works_in(synthesize(session("There", text)).steps, {"README.md", "src/main.c"}, "/app"), text
    assert linked_to(URL, steps, "/app") == Clone(URL, "/app")
    assert linked_to(URL, synthesize(session("Own", "git init", "touch a")).steps, "/app") is None
    for text in ("git -c init.defaultBranch=main init", "git -C .. clone https://git.example.org/x/y"):
        assert linked_to(URL, synthesize(session("Own", text, "touch a")).steps, "/app") is None, text
    assert linked_to("ssh://git.example.org/x", steps, "/app") is None


@pytest.mark.needs("user-namespaces")
async def test_a_recording_in_a_repository_is_done_again_in_there(served: Path, bench: Bench, tmp_path: Path) -> None:
    """As of a checkout that was retrieved: the session shows neither a clone nor the file that it works on."""
    rules = RepositoryRules(fetch=True, instead_of={"https://git.example.org/": f"file://{served}/"})
    told = session("Words", "wc -w < README.md > words.txt", facts=Facts(recorded_at=MARCH))
    linked = told.model_copy(update={"repository": URL})
    config = MakingConfig(screen=SHORT, repositories=rules)
    facts = await Making(linked, bench, tmp_path / "with", config).test()
    with pytest.raises(RecordingRefused, match=r"ends with status 1 here: .*README\.md: No such file"):
        await Making(told, bench, tmp_path / "without", config).test()
    assert [(fact.probe, fact.path, fact.value) for fact in facts if fact.probe == "text"] == [
        ("text", "/app/words.txt", "1\n")
    ]
