"""What a run does before its first trial: it imports what that needs, and lets the fork server start meanwhile."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from running import PATIENCE_S
from support.tasks import make_task
from termarena.cli.starting import begun
from termarena.core.errors import RunNotWritable
from termarena.runs.plan import RunOptions
from termarena.runs.trials import Trials

pytestmark = pytest.mark.needs("user-namespaces")

# Of others: what an oracle's trial of a Harbor task in an embedded sandbox has no use for, and what no pipe shows.
NOT_FOR_AN_ORACLE = {
    *("a2a", "aiodocker", "aiohttp", "fastapi", "httpx", "mcp", "numpy", "openai", "ray", "rich", "sqlalchemy", "yaml"),
    "termarena.agents.custom_tools",
    "termarena.agents.mind",
    "termarena.agents.terminals",
    "termarena.analysis",
    "termarena.arena",
    "termarena.battles",
    "termarena.broker",
    "termarena.forge",
    "termarena.models.contract",
    "termarena.models.http",
    "termarena.models.run_models",
    "termarena.proof",
    "termarena.sandbox.docker",
    "termarena.sandbox.fetches.session",
    "termarena.sandbox.images",
    "termarena.sandbox.terminal.screen",
    "termarena.shell",
    "termarena.tasks.lint",
    "termarena.tasks.manifest",
    "termarena.tasks.simple",
    "termarena.tasks.terminal_bench_1",
    "termarena.tasks.write",
}
# 184 modules of ours when this was written, of 721: each takes a millisecond from everybody who starts a run.
OWN_CEILING = 195

WATCH = """
import json, sys
seen = []
def hook(event, arguments):
    if event == "subprocess.Popen":
        seen.append(event)
    elif event == "import":
        seen.append(arguments[0])
sys.addaudithook(hook)
from termarena.cli.main import main
status = main(sys.argv[1:])
sys.stderr.write("\\n" + json.dumps({"status": status, "events": seen, "modules": sorted(sys.modules)}))
"""


def test_a_run_imports_what_its_trial_needs_while_the_fork_server_starts(tmp_path: Path) -> None:
    words = [
        "run",
        "--path",
        str(make_task(tmp_path / "tasks" / "one").provenance.path),
        "--driver",
        "namespace",
        "--json",
    ]
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", WATCH, *words],
        env={**os.environ, "TERMARENA_HOME": str(tmp_path / "home")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    assert json.loads(done.stdout)["solved"] == 1
    watched = json.loads(done.stderr.splitlines()[-1])
    assert watched["status"] == 0
    assert sorted(NOT_FOR_AN_ORACLE & set(watched["modules"])) == []
    own = [name for name in watched["modules"] if name.startswith("termarena")]
    assert 100 < len(own) <= OWN_CEILING
    events = watched["events"]
    assert events.count("subprocess.Popen") == 1
    assert events.index("subprocess.Popen") < events.index("termarena.reports.building")


def _children() -> set[str]:
    return set(" ".join(path.read_text() for path in Path("/proc/self/task").glob("*/children")).split())


def test_a_run_that_cannot_begin_leaves_no_fork_server(tmp_path: Path) -> None:
    task = make_task(tmp_path / "tasks" / "one")
    before = _children()
    begun_then: list[set[str]] = []

    def prepare() -> None:
        with begun(Trials(RunOptions(driver="namespace"), home=tmp_path / "home", run_id="r"), task):
            begun_then.append(_children() - before)
            raise RunNotWritable("out", problem="full")

    with pytest.raises(RunNotWritable):
        prepare()
    assert [len(found) for found in begun_then] == [1]
    assert _children() <= before
