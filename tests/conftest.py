"""What every test stands on: an environment of its own, and the rule for tests that need a real component."""

from __future__ import annotations

import os
import shutil
import signal
import urllib.request
from http import HTTPStatus
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

KEPT_VARIABLES = {"TERMARENA_REQUIRE_REAL", "TERMARENA_SOAK", "TERMARENA_SMALL_MODEL", "TERMARENA_SMALL_EMBEDDINGS"}
KEPT_VARIABLES |= {"TERMARENA_AGENTBEATS", "TERMARENA_A2A_03_PYTHON"}


def _engine_answers() -> bool:
    from termarena.cli.checks import Machine, check_engine  # noqa: PLC0415 - only where a test asks for it

    return check_engine(Machine()).status == "ok"


def _user_namespaces_work() -> bool:
    from termarena.cli.checks import Machine  # noqa: PLC0415 - as above

    return all(fact.is_there for fact in Machine().facts.values() if fact.is_needed)


def _small_model_answers() -> bool:
    url = os.environ.get("TERMARENA_SMALL_MODEL")
    if url is None:
        return False
    try:
        with urllib.request.urlopen(f"{url}/models", timeout=10) as answer:  # noqa: S310 - our own, on loopback
            return bool(answer.status == HTTPStatus.OK)
    except OSError:
        return False


def _postgresql_is_installed() -> bool:
    from support.postgres import programs  # noqa: PLC0415 - as above

    return programs() is not None


def _agentbeats_is_there() -> bool:
    return bool(os.environ.get("TERMARENA_AGENTBEATS") and os.environ.get("TERMARENA_A2A_03_PYTHON"))


# Components that are not simply a command on the PATH: how to tell, and how to get them.
COMPONENTS: dict[str, tuple[Callable[[], bool], str]] = {
    "agentbeats": (_agentbeats_is_there, 'serve its backend: eval "$(.ci/agentbeats start)"'),
    "docker": (_engine_answers, "start a Docker or Podman engine; `termarena doctor --docker` says what is wrong"),
    "postgresql": (_postgresql_is_installed, "install it: apt-get install postgresql"),
    "small-model": (_small_model_answers, 'serve a small language model: eval "$(.ci/small-model start)"'),
    "user-namespaces": (_user_namespaces_work, "allow user namespaces; `termarena doctor` says how"),
}
PACKAGES = {
    "unshare": "util-linux",
    "setpriv": "util-linux",
    "newuidmap": "uidmap",
    "dockerd": "docker.io",
    "ip": "iproute2",
    "busybox": "busybox-static",
    "/usr/sbin/sshd": "openssh-server",
}


def _problem(component: str) -> str | None:
    """What to do to have the component; None where it is there."""
    if component in COMPONENTS:
        is_there, cure = COMPONENTS[component]
        return None if is_there() else cure
    cure = f"install it: apt-get install {PACKAGES.get(component, component)}"
    return None if shutil.which(component) else cure


LONGEST = "test_suite_as_an_ordinary_user"
LONG_FROM_AFAR = (
    "test_fifty_sandboxes_at_once",
    "test_ten_thousand_files",
    "test_swapping_links_under_transfers",
    "test_fork_has_the_same_files",
    "test_fork_of_a_fork",
    "test_saved_snapshot",
    "test_many_long_requests_at_once",
    "test_archive_root",
    "test_time_limit_that_is_over_while_frozen",
    "test_stopped_jobs_stay_stopped_after_a_thaw",
)
"""Three to ten seconds each over an engine's own API, and tried with a local engine in any case."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest begins first, so that nobody waits for it alone at the end."""
    items.sort(key=lambda item: LONGEST not in item.name)
    for item in items:
        if "docker-from-afar" in item.name and item.name.startswith(LONG_FROM_AFAR):
            item.add_marker(pytest.mark.soak)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("soak") and not os.environ.get("TERMARENA_SOAK"):
        pytest.skip("a long count: make soak")
    for marker in item.iter_markers("needs"):
        for component in marker.args:
            problem = _problem(component)
            if problem and os.environ.get("TERMARENA_REQUIRE_REAL"):
                pytest.fail(f"{component} is required here and not there; {problem}", pytrace=False)
            if problem:
                pytest.skip(f"{component} is not there; {problem}")


@pytest.fixture(scope="session", autouse=True)
def _own_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test reads or writes the files of whoever runs it, nor depends on their settings."""
    home = tmp_path_factory.mktemp("user")
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's `&` would leave it ignored
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # as `nohup` would
    with pytest.MonkeyPatch.context() as patch:
        for name in [*os.environ]:
            if name.startswith(("TERMARENA_", "XDG_", "GIT_")) and name not in KEPT_VARIABLES:
                patch.delenv(name)
        for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "TYPER_USE_RICH"):
            patch.delenv(name, raising=False)
        patch.setenv("HOME", str(home))
        patch.setenv("GIT_CONFIG_NOSYSTEM", "1")
        patch.setenv("GIT_TERMINAL_PROMPT", "0")
        patch.setenv("LC_ALL", "C.UTF-8")
        yield
