"""Tasks of several services: the same file gives the same on every driver."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from sandbox.composing import Composer, base_archive, composed
from sandbox.support import out
from termarena.core.errors import BuildError, SandboxBroken, SandboxStartError, ServiceFailed
from termarena.sandbox import Limits, SandboxSpec
from termarena.sandbox.compositions import ComposedSandbox
from termarena.sandbox.docker.address import find_address
from termarena.sandbox.docker.sweeping import ask

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from termarena.sandbox import Sandbox

pytestmark = [pytest.mark.slow, pytest.mark.needs("busybox")]

FILE = """
services:
  main:
    image: BASE
    container_name: would-clash
    depends_on:
      web: {condition: service_healthy}
      job: {condition: service_completed_successfully}
    environment: {FROM_FILE: "${WORD} $$HOME", NUMBER: 7, TAKEN: }
    env_file: vars.env
    volumes: ["state:/state", "seeded:/seeded", "./given:/given:ro", "./one.txt:/etc/one.txt"]
    tmpfs: ["/scratch:size=1m"]
    secrets: [word, {source: word, target: renamed}]
  web:
    build: {context: web, args: {GREETING: from web}}
    command: ["mkdir /tmp/www; echo $$GREETING > /tmp/www/index.html; echo serving; exec httpd -f -p 8000 -h /tmp/www"]
    user: alice
    working_dir: /srv/below
    restart: always
    expose: [8000]
    networks: {default: {aliases: [www]}}
    volumes: [{type: volume, source: seeded, target: /data}]
    mem_limit: 256m
    healthcheck: {test: wget -qO- http://127.0.0.1:8000/, interval: 200ms, timeout: 20s, retries: 300}
  job:
    image: BASE
    entrypoint: [sh, -c]
    command: ["ls /given > /state/job"]
    volumes: ["state:/state", "./given:/given"]
  never: {image: termarena-never-there, profiles: [other]}
volumes: {state: {}, seeded: }
secrets: {word: {file: one.txt}}
"""
WEB = """FROM BASE
ARG GREETING
ENV GREETING=$GREETING
RUN mkdir /data && echo seed > /data/seed && chown alice /data
ENTRYPOINT ["sh", "-c"]
CMD ["exit 9"]
"""
LOOK = """
wget -qO- http://web:8000/; wget -qO- http://www:8000/
pwd; echo "$FROM_FILE $NUMBER $TAKEN $QUOTED $PLAIN"
cat /state/job /seeded/seed /given/word /etc/one.txt
touch /given/more 2>/dev/null || echo read-only
cat /run/secrets/word /run/secrets/renamed; echo x 2>/dev/null > /run/secrets/word || echo kept
echo x > /scratch/y && echo changed > /etc/one.txt && echo x > /state/mine
"""
SEEN = [
    "from web",
    "from web",
    "/srv/work",
    "said $HOME 7 given a b c",
    "word",
    "seed",
    "given",
    "one",
    "read-only",
    "one",
    "one",
    "kept",
]


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("namespace", marks=pytest.mark.needs("user-namespaces")),
        pytest.param("docker", marks=pytest.mark.needs("docker", "docker-compose")),
    ],
)
def composer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Composer]:
    made = Composer(request.param, tmp_path_factory.mktemp("home"))
    try:
        made.prepare(base_archive(tmp_path_factory.mktemp("base")))
        yield made
    finally:
        made.close()


async def test_services_are_as_their_file_says_and_all_goes(composer: Composer, tmp_path: Path) -> None:
    async with composer.driver() as driver:
        root = composed(
            tmp_path / "task",
            FILE,
            **{"vars.env": "# both\nQUOTED='a b'\nPLAIN=c\n", "one.txt": "one\n"},
            given__word="given\n",
            web__Dockerfile=WEB,
        )
        env = {"WORD": "said", "TAKEN": "given"}
        prepared = await driver.prepare(SandboxSpec(root=root, env=env, workdir="/srv/work", limits=Limits(pids=64)))
        async with driver.start(prepared.spec) as box:
            assert isinstance(box, ComposedSandbox)
            assert (await out(box, LOOK)).splitlines() == SEEN
            around = await box.surroundings()
            assert (around.workdir, around.env["NUMBER"], around.env["PLAIN"]) == ("/srv/work", "7", "c")
            await _look_at_services(box)
            slow = await box.exec(["sh", "-c", "setsid sleep 90 & sleep 91"], timeout_s=0.5)
            assert slow.timed_out
            assert await box.processes() == ()
            await box.freeze()
            await box.thaw()
            await box.write("/srv/mark", b"kept")
            changed = (await box.diff()).changes
            mounted = {"/etc/one.txt", "/run/secrets/word", "/run/secrets/renamed"}
            assert {one.path for one in changed if one.kind == "file"} - mounted == {"/srv/mark"}
            assert composer.left_over() != []
            snapshot = await box.snapshot()
        async with driver.start(snapshot) as fork:
            assert await out(fork, "cat /srv/mark; ls /state; cat /etc/one.txt; wget -qO- http://web:8000/") == (
                "keptjob\none\nfrom web"
            )
        snapshot.close()
        assert composer.left_over() == []
    assert sorted(path.name for path in (tmp_path / "task/given").iterdir()) == ["word"]


async def _look_at_services(box: Sandbox) -> None:
    assert isinstance(box, ComposedSandbox)
    assert box.services == ("job", "web")
    web = box.service("web")
    assert await out(web, "stat -c %U /data; cat /data/seed; echo mine > /data/more") == "alice\nseed"
    owners = "for at in /proc/[0-9]*; do case $(cat $at/comm) in httpd) stat -c %U $at;; esac; done"
    assert await out(web, owners) == "alice"
    assert await out(box, "cat /seeded/more") == "mine"
    assert await box.logs("web") == b"serving\n"
    with pytest.raises(SandboxBroken, match="there is: job, web"):
        box.service("db")


async def test_services_that_never_get_healthy(composer: Composer, tmp_path: Path) -> None:
    root = composed(
        tmp_path / "task",
        """
services:
  main: {image: BASE}
  web:
    image: BASE
    command: sh -c "echo about to fail; sleep 600"
    healthcheck: {test: [CMD, "false"], interval: 100ms, retries: 2}
""",
    )
    async with composer.driver() as driver:
        with pytest.raises(ServiceFailed, match="web is unhealthy") as caught:
            async with driver.start(SandboxSpec(root=root)):
                raise AssertionError("started")
        assert caught.value.log_tail.strip() == "about to fail"
        assert composer.left_over() == []


async def test_services_that_wait_for_one_that_fails(composer: Composer, tmp_path: Path) -> None:
    root = composed(
        tmp_path / "task",
        """
services:
  main: {image: BASE, depends_on: {job: {condition: service_completed_successfully}}}
  job: {image: BASE, command: [sh, -c, "echo no luck; exit 3"]}
""",
    )
    async with composer.driver() as driver:
        with pytest.raises(SandboxStartError, match="service") as caught:
            async with driver.start(SandboxSpec(root=root)):
                raise AssertionError("started")
        assert composer.left_over() == []
    if composer.kind == "namespace":
        assert isinstance(caught.value, ServiceFailed)
        assert (caught.value.service, caught.value.log_tail) == ("job", "no luck")
        assert "ended with status 3" in str(caught.value)


async def test_services_that_do_not_build(composer: Composer, tmp_path: Path) -> None:
    text = "services: {main: {image: BASE}, web: {build: web}}"
    root = composed(tmp_path / "task", text, web__Dockerfile=f"FROM BASE\nRUN exit 9 # {tmp_path}\n")
    async with composer.driver() as driver:
        with pytest.raises(BuildError, match=r"RUN exit 9|status 9"):
            async with driver.start(SandboxSpec(root=root)):
                raise AssertionError("started")
        assert composer.left_over() == []
    if composer.kind == "docker":
        everything = await asyncio.to_thread(ask, find_address(), "GET", "/containers/json", all=1)
        assert not [row for row in everything if str(tmp_path) in row["Command"]]
