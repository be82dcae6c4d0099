"""Several services on embedded sandboxes: one network, one set of ids, and what that means."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from sandbox.composing import BASE, Composer, base_archive, composed
from sandbox.support import out
from termarena.core.errors import SandboxBroken, ServiceFailed
from termarena.sandbox import Mount, Network, SandboxSpec
from termarena.sandbox.images import ImageShelf
from termarena.sandbox.namespace import NamespaceDriver
from termarena.sandbox.namespace.services.box import LOG_BYTES, ServiceLog, ServicesSandbox

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.needs("busybox")


@pytest.fixture(scope="module")
def composer(tmp_path_factory: pytest.TempPathFactory) -> Composer:
    made = Composer("namespace", tmp_path_factory.mktemp("home"))
    made.prepare(base_archive(tmp_path_factory.mktemp("base")))
    return made


SAME_PORT = """
services:
  main:
    image: BASE
    command: sh -c "echo up > /state/main; exec sleep 600"
    hostname: agent
    volumes: ["state:/state"]
    healthcheck: {test: test -s /state/main, interval: 100ms, retries: 600}
  one: {image: BASE, command: [sh, -c, "echo 1 > /index.html; SERVE"], healthcheck: HEALTH}
  two: {image: BASE, command: [sh, -c, "echo 2 > /index.html; SERVE"], healthcheck: HEALTH}
volumes: {state: }
"""
SERVE = "exec httpd -f -p $$(grep -w $$(hostname) /etc/hosts | cut -d' ' -f1):80"
HEALTH = "{test: 'wget -qO- http://$$(hostname)/', interval: 100ms, timeout: 20s, retries: 600}"


async def test_services_that_bind_their_own_name_may_have_the_same_port(composer: Composer, tmp_path: Path) -> None:
    root = composed(tmp_path / "task", SAME_PORT.replace("HEALTH", HEALTH).replace("SERVE", SERVE))
    (tmp_path / "shown").mkdir()
    (tmp_path / "shown/file").write_text("seen")
    spec = SandboxSpec(
        root=root,
        network=Network(mode="allowlist", allowed_hosts=("example.org",)),
        mounts=(Mount(source=tmp_path / "shown", target="/opt/shown"),),
    )
    async with composer.driver() as driver, driver.start(spec) as box:
        assert isinstance(box, ServicesSandbox)
        # The wget of busybox does not know no_proxy: the proxy leads back to the services.
        look = "wget -qO- http://one/; wget -qO- http://two/; hostname; cat /state/main"
        assert await out(box, look) == "1\n2\nagent\nup"
        refused = await box.exec(["wget", "-qO-", "http://elsewhere.example/"], timeout_s=30)
        assert b"403" in refused.stderr
        assert await out(box, "cat /opt/shown/file; echo $http_proxy $no_proxy") == (
            "seenhttp://127.0.0.1:3128 localhost,127.0.0.1,::1,main,one,two"
        )
        assert await out(box.service("one"), "echo $http_proxy; ls /opt") == "link\ntree"
        await box.stop()
        with pytest.raises(SandboxBroken):
            await box.service("one").exec(["true"])
    assert composer.left_over() == []


async def test_a_port_that_another_service_has_is_told_with_the_log(composer: Composer, tmp_path: Path) -> None:
    text = """
services:
  main: {image: BASE}
  one: {image: BASE, command: httpd -f -p 80, healthcheck: {test: wget -qO- http://one/none; true, interval: 100ms}}
  two:
    image: BASE
    command: [httpd, -f, -p, "80"]
    depends_on: {one: {condition: service_healthy}}
    healthcheck: {test: "false", interval: 1m}
"""
    root = composed(tmp_path / "task", text)
    async with composer.driver() as driver:
        with pytest.raises(ServiceFailed, match="two ended with status 1 before it was healthy") as caught:
            async with driver.start(SandboxSpec(root=root)):
                raise AssertionError("started")
    assert "Address already in use" in caught.value.log_tail
    assert composer.left_over() == []


async def test_a_hostname_that_the_kernel_does_not_take_is_cut(composer: Composer, tmp_path: Path) -> None:
    root = composed(tmp_path / "task", f"services: {{main: {{image: BASE, hostname: {'x' * 70}}}}}")
    async with composer.driver() as driver, driver.start(SandboxSpec(root=root)) as box:
        assert await out(box, "hostname") == "x" * 63


async def test_waiting_for_the_health_of_one_that_has_no_check(composer: Composer, tmp_path: Path) -> None:
    text = "services: {main: {image: BASE, depends_on: {a: {condition: service_healthy}}}, "
    text += "a: {image: BASE, command: sleep 600}}"
    async with composer.driver() as driver:
        with pytest.raises(ServiceFailed, match="a has no healthcheck, and main waits"):
            async with driver.start(SandboxSpec(root=composed(tmp_path / "task", text))):
                raise AssertionError("started")


async def test_cancelling_a_start_leaves_nothing(composer: Composer, tmp_path: Path) -> None:
    text = """
services:
  main: {image: BASE, depends_on: {a: {condition: service_healthy}}}
  a: {image: BASE, command: sleep 600, healthcheck: {test: "false", interval: 1m, retries: 100}}
"""
    root = composed(tmp_path / "task", text)
    async with composer.driver() as driver:
        assert isinstance(driver, NamespaceDriver)

        async def start() -> None:
            async with driver.start(SandboxSpec(root=root)):
                raise AssertionError("started")

        starting = asyncio.create_task(start())
        while len(await asyncio.to_thread(driver.list)) < 2:  # the ground, and the service
            assert not starting.done()
        starting.cancel()
        await asyncio.wait({starting})
        assert starting.cancelled()
        assert driver.list() == ()


async def test_users_of_services_are_there_with_one_id(tmp_path: Path) -> None:
    """One service begins as another user, one drops to it by itself."""
    text = """
services:
  main:
    image: BASE
    user: alice
    volumes: ["v:/shared"]
    depends_on: {begun: {condition: service_completed_successfully}, drops: {condition: service_completed_successfully}}
  begun: {image: BASE, command: ["id -u > /shared/begun"], entrypoint: [sh, -c], user: alice, volumes: ["v:/shared"]}
  drops: {image: BASE, command: ["su alice -c id > /shared/drops"], entrypoint: [sh, -c], volumes: ["v:/shared"]}
volumes: {v: {}}
"""
    root = composed(tmp_path / "task", text)
    async with NamespaceDriver(home=tmp_path / "home", allow_ranges=False) as driver:
        if driver.ids.has_users:
            pytest.skip("root always has all ids; the suite runs again as an ordinary user")
        shelf = ImageShelf(driver, tmp_path / "home")
        await shelf.import_archive(base_archive(tmp_path), name=BASE)
        shelf.close()
        async with driver.start(SandboxSpec(root=root)) as box:
            assert await out(box, "id -u; cat /shared/begun; cut -c 1-8 /shared/drops") == "1234\n1234\nuid=1234"
            assert (await out(box, "ls -n /shared/begun /shared/drops | tr -s ' ' | cut -d ' ' -f 3")) == "1234\n0"


def test_of_a_long_log_the_end_is_kept() -> None:
    log = ServiceLog()
    for number in range(5):
        log.take(bytes([65 + number]) * LOG_BYTES)
    assert log.content() == b"E" * LOG_BYTES
    assert len(log.tail()) == 4000
