"""Tests whose runner could not be fetched: nobody's zero."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from termarena.core.errors import SandboxBroken
from termarena.grading import GradingJob
from termarena.grading.absent import runners_of

if TYPE_CHECKING:
    from pathlib import Path

    from grading.bench import Bench

MISSING = next(name for name in ("nose2", "bats", "nox", "tox") if shutil.which(name) is None)
# As `harbor task init` writes it, for a machine that reaches nobody.
STOCK = f"""\
#!/bin/bash
curl -LsSf https://install.example.com/install.sh | sh
[ -f $HOME/.local/bin/env ] && source $HOME/.local/bin/env
{MISSING} --with pytest-json-ctrf==0.3.5 pytest --ctrf /logs/verifier/ctrf.json /tests/test_outputs.py -rA
if [ $? -eq 0 ]; then
  echo 1 > /logs/verifier/reward.txt
else
  echo 0 > /logs/verifier/reward.txt
fi
"""


@pytest.mark.needs("user-namespaces")
async def test_a_script_that_could_not_fetch_its_runner_gives_no_zero(bench: Bench) -> None:
    verdict = await bench.sealed(bench.harbor(STOCK))
    assert verdict.fault is not None
    assert (verdict.reward, verdict.raw_reward, verdict.fault.reason) == (None, None, "cannot_run")
    assert f"the tests are run by {MISSING}" in verdict.fault.message


@pytest.mark.needs("user-namespaces")
async def test_a_runner_that_is_there_gives_its_zero(bench: Bench) -> None:
    brought = f"mkdir -p ~/.local/bin; printf '#!/bin/sh\\nexit 1\\n' >~/.local/bin/{MISSING}; chmod +x ~/.local/bin/*"
    verdict = await bench.sealed(bench.harbor(STOCK), brought)
    assert (verdict.reward, verdict.fault) == (0.0, None)


@pytest.mark.needs("user-namespaces")
async def test_a_runner_that_the_agent_is_to_bring_is_its_own_affair(bench: Bench) -> None:
    task = bench.harbor(STOCK, instruction_md=f"Install {MISSING}.\n")
    verdict = await bench.sealed(task)
    assert (verdict.reward, verdict.fault) == (0.0, None)


@pytest.mark.needs("user-namespaces")
async def test_a_runner_where_the_tasks_own_path_leads_gives_its_zero(bench: Bench) -> None:
    brought = f"mkdir -p /srv/bin; printf '#!/bin/sh\\nexit 1\\n' >/srv/bin/{MISSING}; chmod +x /srv/bin/*"
    own = '[verifier.env]\nPATH = "/srv/bin:/usr/local/bin:/usr/bin:/bin"\n'
    verdict = await bench.sealed(bench.harbor(STOCK, more=own), brought)
    assert (verdict.reward, verdict.fault) == (0.0, None)


@pytest.mark.needs("user-namespaces")
async def test_a_look_that_fails_leaves_the_zero_as_it_is(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object) -> tuple[str, ...]:
        raise SandboxBroken("box", "it ended")

    monkeypatch.setattr("termarena.grading.grader.absent_runners", fail)
    verdict = await bench.sealed(bench.harbor(STOCK))
    assert (verdict.reward, verdict.fault) == (0.0, None)


@pytest.mark.parametrize(
    ("script", "runners"),
    [
        ("uvx -p 3.13 --with pytest pytest /tests", ("uvx",)),
        ("pip install pytest\ncd /tests && pytest -rA || true", ("pytest",)),
        ("cd /tests && pytest -rA || true", ()),
        ("if ! X=1 uv run pytest; then uvx y; fi", ("uv", "uvx")),
        ("pip install x\n# pytest\necho pytest; grep pytest-x /app/log; cat <<E\npytest\nE", ()),
        ("apt-get install -y pytest; echo uvx", ()),
        ("pip install pytest\nsource .venv/bin/activate\npytest", ()),
        ("pip install pytest\nexport PATH=/opt/x:$PATH\npytest", ()),
        ("curl -L https://a.example.com/i | UV_INSTALL_DIR=/opt/uv sh\n. /opt/uv/env\nuvx pytest", ()),
        ("pip install pytest\npytest || python3 -m pytest", ()),
        ("pip install pytest\n/opt/venv/bin/pytest; pytest-3 x; pytest.sh", ()),
    ],
)
def test_runners_are_what_commands_begin_with(
    bench: Bench, tmp_path: Path, script: str, runners: tuple[str, ...]
) -> None:
    task = bench.harbor(f"#!/bin/bash\n{script}\n")
    assert runners_of(GradingJob.of(task, output=tmp_path / "output")) == runners
