"""What a compose file says, key by key: followed, without effect, or refused by name before anything starts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from termarena.core.errors import CapabilityMissing, ImageError, TaskFormatError
from termarena.sandbox import Root
from termarena.sandbox.compositions import keep_composition, parse_composition
from termarena.sandbox.images import ImageConfig
from termarena.sandbox.namespace.services import read_services
from termarena.sandbox.namespace.services.commands import check_ports, order_of
from termarena.sandbox.namespace.services.ground import check_sources
from termarena.sandbox.namespace.services.reading import health_of_image
from termarena.sandbox.namespace.services.values import filled, parse_env_file

if TYPE_CHECKING:
    from termarena.sandbox.namespace.services.model import Composition, Service

WEB = "services: {main: {image: x}, web: {image: y, command: run, %s}}"


def read(text: str, folder: Path | None = None, **values: str) -> Composition:
    document = parse_composition(text, source="c.yaml")
    root = Root(kind="compose", path=Path("c.yaml"))
    return read_services(document, root, values=values, folder=folder, source="c.yaml")


def web(more: str, **values: str) -> Service:
    return read(WEB % more, None, **values).services["web"]


@pytest.mark.parametrize(
    ("more", "place"),
    [
        ("cap_add: [NET_ADMIN]", "services.web.cap_add"),
        ("secrets: [{source: s, driver: x}]", "services.web.secrets.0.driver"),
        ("security_opt: [x]", "services.web.security_opt"),
        ("sysctls: {a: 1}", "services.web.sysctls"),
        ("extends: {service: main}", "services.web.extends"),
        ("scale: 2", "services.web.scale"),
        ("read_only: true", "services.web.read_only"),
        ("tty: true", "services.web.tty"),
        ("shm_size: 1g", "services.web.shm_size"),
        ("volumes: [/var/run/docker.sock:/s]", "services.web.volumes.0"),
        ("volumes: ['../up:/s']", "services.web.volumes.0"),
        ("volumes: [{type: cluster, source: a, target: /a}]", "services.web.volumes.0.type"),
        ("volumes: [{type: [bind], source: a, target: /a}]", "services.web.volumes.0.type"),
        ("volumes: [{type: bind, source: ., target: /a, extra: 1}]", "services.web.volumes.0.extra"),
        ("deploy: {replicas: 2}", "services.web.deploy.replicas"),
        ("deploy: {resources: {reservations: {devices: []}}}", "services.web.deploy.resources.reservations.devices"),
        ("networks: {default: {ipv4_address: 10.0.0.1}}", "services.web.networks.default.ipv4_address"),
        ("extra_hosts: ['h:host-gateway']", "services.web.extra_hosts"),
        ("depends_on: {main: {condition: service_started, required: false}}", "services.web.depends_on.main.required"),
        ("healthcheck: {test: x, sometimes: 1}", "services.web.healthcheck.sometimes"),
        ("build: {context: ., ssh: [default]}", "services.web.build.ssh"),
        ("build: 'https://example.org/x.git'", "services.web.build.context"),
        ("platform: linux/s390x", "services.web.platform"),
        (f"volumes: [{', '.join(f'/v{number}' for number in range(33))}]", "services.web.volumes"),
    ],
)
def test_a_key_that_is_not_followed_is_refused_by_its_name(more: str, place: str) -> None:
    with pytest.raises(CapabilityMissing) as caught:
        web(more)
    assert f"`{place}`" in str(caught.value)
    assert caught.value.hint == "use --driver docker"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("services: {main: {image: x}}\nsecrets: {s: {external: true}}", "secrets.s.external"),
        ("services: {main: {image: x}}\nconfigs: {c: {content: x}}", "configs.c.content"),
        ("services: {main: {image: x}}\nsecrets: {s: {file: ../f}}", "secrets.s.file"),
        ("services: {main: {image: x}}\nvolumes: {v: {external: true}}", "volumes.v.external"),
        ("services: {main: {image: x}}\nvolumes: {v: {driver: nfs}}", "volumes.v.driver"),
        ("services: {main: {image: x}}\nnetworks: {n: {external: true}}", "networks.n.external"),
        ("services: {main: {image: x}}\nnetworks: {n: {driver: host}}", "networks.n.driver"),
        (
            "services: {main: {image: x, networks: [a]}, web: {image: y, networks: [b]}}\nnetworks: {a: , b: }",
            "services.main.networks",
        ),
    ],
)
def test_a_section_that_is_not_followed_is_refused_by_its_name(text: str, place: str) -> None:
    with pytest.raises(CapabilityMissing) as caught:
        read(text)
    assert f"`{place}`" in str(caught.value)


def test_secrets_and_configs_are_files_and_profiles_choose() -> None:
    text = """
services:
  main: {image: x, secrets: [s], configs: [c, {source: c, target: /etc/c}]}
  never: {image: y, profiles: [p]}
  wished: {image: z, profiles: [q, r]}
secrets: {s: {file: ./f}}
configs: {c: {file: g}}
"""
    found = read(text, COMPOSE_PROFILES="r,other")
    assert sorted(found.services) == ["main", "wished"]
    places = [(use.volume.source, use.at, use.is_writable) for use in found.services["main"].uses]
    assert places == [("f", "/run/secrets/s", False), ("g", "/c", False), ("g", "/etc/c", False)]
    assert sorted(read(text, COMPOSE_PROFILES="*").services) == ["main", "never", "wished"]
    with pytest.raises(TaskFormatError, match="the file's own section secrets; it has: s"):
        read(text.replace("[s]", "[t]"))
    with pytest.raises(TaskFormatError, match=r"services\.main\.profiles"):
        read("services: {main: {image: x, profiles: [p]}}")


@pytest.mark.parametrize("key", ["privileged", "network_mode", "pid", "ipc", "devices"])
def test_what_reaches_out_is_refused_by_every_driver(key: str) -> None:
    with pytest.raises(ImageError, match=f"asks for {key}"):
        web(f"{key}: [host]" if key == "devices" else f"{key}: host")


@pytest.mark.parametrize(
    ("more", "place"),
    [
        ("healthcheck: {test: [RUN, x]}", "services.web.healthcheck.test"),
        ("healthcheck: {interval: 5s}", "services.web.healthcheck"),
        ("healthcheck: {test: x, interval: soon}", "services.web.healthcheck.interval"),
        ("mem_limit: much", "services.web.mem_limit"),
        ("mem_limit: 1k", "services.web"),
        ("cpus: 0", "services.web.cpus"),
        ("depends_on: [nobody]", "services.web.depends_on"),
        ("depends_on: {main: {condition: service_happy}}", "services.web.depends_on.main.condition"),
        ("depends_on: [web]", "services"),
        ("volumes: ['nowhere:/v']", "services.web.volumes.0"),
        ("volumes: ['./a:relative']", "services.web.volumes.0"),
        ("volumes: ['./a:/proc/x']", "services.web.volumes.0"),
        ("networks: [nowhere]", "services.web.networks"),
        ("entrypoint: 'sh -c \"'", "services.web.entrypoint"),
        ("environment: 5", "services.web.environment"),
        ("hostname: [a]", "services.web.hostname"),
    ],
)
def test_what_compose_would_not_take_is_told_with_its_place(more: str, place: str) -> None:
    with pytest.raises(TaskFormatError) as caught:
        web(more)
    assert caught.value.field == place


@pytest.mark.parametrize("name", ["../up", "a b", "x" * 64])
def test_a_name_that_is_none(name: str) -> None:
    with pytest.raises(TaskFormatError, match="names of at most 63 letters"):
        read(f"services: {{main: {{image: x}}, '{name}': {{image: y, command: run}}}}")


def test_what_has_no_effect_here_is_taken() -> None:
    noted = "container_name: c, restart: always, init: true, labels: [a=b], logging: {driver: none}, stop_signal: INT"
    assert web(noted).name == "web"
    text = "services: {main: {image: x, tty: true, stdin_open: true, x-own: 1}}\nx-any: {a: 1}"
    assert list(read(text).services) == ["main"]


def test_two_networks_are_taken_where_all_services_meet() -> None:
    text = "services: {main: {image: x, networks: [a, b]}, web: {image: y, networks: [b]}}\n"
    text += "networks: {a: , b: {internal: true}}"
    assert list(read(text).services) == ["main", "web"]


def test_values_are_read_in_each_form() -> None:
    found = web(
        "environment: [A=1, B=, C, D], mem_limit: 64m, cpus: '0.5', pids_limit: 50, links: ['main:first'],"
        " ports: ['127.0.0.1:80:8000/udp', {target: 9}], expose: ['70'], extra_hosts: ['far=192.0.2.1'],"
        " tmpfs: '/t:size=2m,mode=700'",
        C="c",
    )
    assert found.environment == {"A": "1", "B": "", "C": "c"}
    assert (found.limits.memory_bytes, found.limits.cpus, found.limits.pids) == (64 << 20, 0.5, 50)
    assert found.ports == {"8000/udp", "9/tcp", "70/tcp"}
    assert (found.links, found.hosts) == ((("main", "first"),), (("192.0.2.1", "far"),))
    assert [(one.at, one.size_bytes, one.mode) for one in found.memories] == [("/t", 2 << 20, 0o700)]


def test_volumes_are_read_in_each_form() -> None:
    text = (
        "services: {main: {image: x, volumes: ['v:/a:ro', './d/../d:/b', /c, {type: volume, source: v, target: /d,"
        " volume: {nocopy: true}}, {type: bind, source: ./d, target: /e, read_only: true},"
        " {type: tmpfs, target: /f, tmpfs: {size: 4096}}]}}\nvolumes: {v: {driver: local}}"
    )
    main = read(text).services["main"]
    seen = [(use.volume.name, use.volume.source, use.at, use.is_writable, use.fills) for use in main.uses]
    assert seen == [
        ("v", None, "/a", False, True),
        ("./d", "d", "/b", True, False),
        ("main services.main.volumes.2", None, "/c", True, True),
        ("v", None, "/d", True, False),
        ("./d", "d", "/e", False, False),
    ]
    assert len(read(text).volumes) == 3
    assert [(one.at, one.size_bytes) for one in main.memories] == [("/f", 4096)]


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("${A} $A $$A", "a a $A"),
        ("${B:-b} ${B-b} ${A:+c} ${B:+c}", "b b c "),
        ("""'${A}' "$A" \\n""", """'a' "a" \\n"""),
        ("${B:-'q'}", "'q'"),
        ("$NONE", ""),
    ],
)
def test_variables_are_filled_in_as_compose_does(text: str, made: str) -> None:
    assert filled({"k": [text]}, {"A": "a"}, source="f") == {"k": [made]}


def test_a_variable_that_is_insisted_on() -> None:
    with pytest.raises(TaskFormatError, match="tell me"):
        web("hostname: '${H:?tell me}'")


def test_variables_of_files(tmp_path: Path) -> None:
    text = "# no\n\nexport A='x # y'\nB=\"z\"\nC=plain # note\nD=\nE\nF\n"
    assert parse_env_file(text, {"E": "e"}) == {"A": "x # y", "B": "z", "C": "plain", "D": "", "E": "e"}
    (tmp_path / ".env").write_text("A=beside\nB=beside\n")
    (tmp_path / "own.env").write_text("C=file\nA=file\n")
    files = "[own.env, {path: gone.env, required: false}]"
    text = f"services: {{main: {{image: x, env_file: {files}, environment: {{A: '$A-$B'}}}}}}"
    assert read(text, tmp_path, A="given").services["main"].environment == {"A": "given-beside", "C": "file"}
    with pytest.raises(TaskFormatError, match=r"gone\.env"):
        read("services: {main: {image: x, env_file: gone.env}}", tmp_path)
    (tmp_path / "out.env").symlink_to("/etc/passwd")
    with pytest.raises(TaskFormatError):
        read("services: {main: {image: x, env_file: out.env}}", tmp_path)


def test_the_main_service_is_the_dockerfile_beside_the_file_unless_it_says_more() -> None:
    build = read("services: {main: }").services["main"].build
    assert build is not None
    assert (build.context, build.dockerfile) == (".", "Dockerfile")
    with pytest.raises(TaskFormatError, match="image or build"):
        read("services: {main: , web: {command: x}}")
    with pytest.raises(ImageError, match="there is: client"):
        read("services: {client: {image: x}}")


@pytest.mark.parametrize(
    ("more", "image", "argv"),
    [
        ("command: a b", {"cmd": ("c",)}, ("a", "b")),
        ("command: [a], entrypoint: [e]", {"entrypoint": ("i",), "cmd": ("c",)}, ("e", "a")),
        ("command: , entrypoint: e 'f g'", {"entrypoint": ("i",), "cmd": ("c",)}, ("e", "f g")),
        ("command: a", {"entrypoint": ("i",), "cmd": ("c",)}, ("i", "a")),
        ("command: ", {"entrypoint": ("i",), "cmd": ("c",)}, ("i", "c")),
        ("command: a, entrypoint: []", {"entrypoint": ("i",)}, ("a",)),
    ],
)
def test_what_a_service_runs(more: str, image: dict[str, Any], argv: tuple[str, ...]) -> None:
    text = f"services: {{main: {{image: x}}, web: {{image: y, {more}}}}}"
    assert order_of(read(text).services["web"], ImageConfig(**image), is_main=False).argv == argv


def test_what_the_main_service_runs() -> None:
    config = ImageConfig(entrypoint=("i",), cmd=("c",), user="alice", workdir="/w", ports=("80/tcp",))
    idle = order_of(read("services: {main: {image: x}}").services["main"], config, is_main=True)
    assert (idle.argv, idle.user, idle.workdir, idle.ports) == ((), "alice", "/w", frozenset())
    with pytest.raises(ImageError, match="has a command"):
        order_of(read("services: {main: {image: x}}").services["main"], ImageConfig(), is_main=False)


def test_the_healthcheck_is_the_files_or_the_images() -> None:
    config = ImageConfig(healthcheck={"Test": ["CMD", "look"], "Interval": 2_000_000_000, "Retries": 7})
    own = order_of(web("labels: "), config, is_main=False).health
    assert own is not None
    assert (own.argv, own.rules.interval_s, own.rules.timeout_s, own.rules.retries) == (("look",), 2.0, 30.0, 7)
    given = order_of(web("healthcheck: {test: see, start_period: 1m}"), config, is_main=False).health
    assert given is not None
    assert (given.argv, given.rules.interval_s, given.rules.start_period_s) == (("/bin/sh", "-c", "see"), 30.0, 60.0)
    assert order_of(web("healthcheck: {disable: true}"), config, is_main=False).health is None
    assert order_of(web("healthcheck: {test: [NONE]}"), config, is_main=False).health is None


@pytest.mark.parametrize(
    "told",
    [
        ["CMD", "a"],
        {"Test": 5},
        {"Test": ["CMD", "a"], "Interval": "x"},
        {"Test": ["CMD", "a"], "Timeout": 10**400},
        {"Test": ["CMD", "a"], "Retries": [1]},
    ],
    ids=lambda told: str(told)[:60],
)
def test_a_healthcheck_of_an_image_that_is_none(told: Any) -> None:  # noqa: ANN401 - whatever an image says
    with pytest.raises(TaskFormatError, match="Healthcheck"):
        health_of_image(told, source="image")


def test_two_services_on_one_port_are_refused_by_name() -> None:
    runs = "image: y, command: r"
    text = f"services: {{main: {{image: x, expose: [80]}}, a: {{{runs}, expose: [80]}}, b: {{{runs}}}}}"
    services = read(text).services
    orders = {name: order_of(one, ImageConfig(), is_main=name == "main") for name, one in services.items()}
    check_ports(orders, has_proxy=True)
    orders["b"] = order_of(services["b"], ImageConfig(ports=("80/tcp",)), is_main=False)
    with pytest.raises(CapabilityMissing, match=r"port 80/tcp of b.*a has it"):
        check_ports(orders, has_proxy=False)


def test_links_do_not_lead_out_of_the_tasks_folder(tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to("/etc")
    with pytest.raises(CapabilityMissing, match=r"volumes: out"):
        check_sources(read("services: {main: {image: x, volumes: ['./out:/x']}}"), tmp_path)
    with pytest.raises(CapabilityMissing, match=r"build\.context"):
        check_sources(read("services: {main: {build: ./out}}"), tmp_path)
    (tmp_path / "Dockerfile").symlink_to("/etc/passwd")
    for build in (".", "{context: ., dockerfile: /etc/passwd}", "{context: ., dockerfile: ../x}"):
        with pytest.raises(CapabilityMissing, match=r"build\.dockerfile"):
            check_sources(read(f"services: {{main: {{build: {build}}}}}"), tmp_path)


def test_a_kept_folder_is_told_by_all_that_is_in_it(tmp_path: Path) -> None:
    (tmp_path / "task").mkdir()
    (tmp_path / "task/.dockerignore").write_text("data\n")
    (tmp_path / "task/data").write_text("one")
    one = keep_composition(tmp_path / "task", {"services": {}}, home=tmp_path)
    (tmp_path / "task/data").write_text("two")
    two = keep_composition(tmp_path / "task", {"services": {}}, home=tmp_path)
    assert [path.with_name("data").read_text() for path in (one, two)] == ["one", "two"]
