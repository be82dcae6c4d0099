"""Tests whose runner could not be fetched: nobody's zero."""

from __future__ import annotations

import shutil
import time
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


BY_MODULE = """\
#!/bin/bash
pip install --retries 0 --quiet behave
if python3 -m behave /tests; then echo 1; else echo 0; fi >/logs/verifier/reward.txt
"""


@pytest.mark.needs("user-namespaces")
@pytest.mark.parametrize("is_there", [False, True])
async def test_a_module_that_could_not_be_fetched_gives_no_zero_and_one_that_is_there_does(
    bench: Bench, *, is_there: bool
) -> None:
    brought = 'd=$(python3 -m site --user-site); mkdir -p "$d" && echo "raise SystemExit(1)" >"$d/behave.py"'
    verdict = await bench.sealed(bench.harbor(BY_MODULE), brought if is_there else None)
    told = None if verdict.fault is None else (verdict.fault.reason, verdict.fault.message)
    missing = ("cannot_run", "the tests are run by python3 -m behave, and none of these is there")
    assert (verdict.reward, told) == ((0.0, None) if is_there else (None, missing))


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

    monkeypatch.setattr("termarena.grading.absent.absent_runners", fail)
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
        ("pip install pytest\npytest || python3 -m pytest", ("pytest", "python3 -m pytest")),
        ("pip install pytest\nX=1 python3.12 -B -Im pytest -rA /tests", ("python3.12 -m pytest",)),
        ("pip install pytest\n.venv/bin/python -m pytest", ()),
        ("pip install pytest\npytest || $PYTHON -m pytest", ()),
        ("pip install --target /x pytest\npython -m pytest", ()),
        ("pip install pytest\nPYTHONPATH=/x python -m pytest", ()),
        ("pip install pytest\npython3 -m unittest || pytest", ()),
        ("pip install pytest\npython3 -m pytest_x; grep -m 1 pytest y", ()),
        ("pip install pytest\n/opt/venv/bin/pytest; pytest-3 x; pytest.sh", ()),
    ],
)
def test_runners_are_what_commands_begin_with(
    bench: Bench, tmp_path: Path, script: str, runners: tuple[str, ...]
) -> None:
    task = bench.harbor(f"#!/bin/bash\n{script}\n")
    assert runners_of(GradingJob.of(task, output=tmp_path / "output")) == runners


@pytest.mark.parametrize("row", ["X=;", "X=;X=1 ", "env X=1 "])
def test_a_long_row_of_variables_is_looked_at_once(bench: Bench, tmp_path: Path, row: str) -> None:
    task = bench.harbor(f"#!/bin/bash\npip install pytest; {row * (200_000 // len(row))}\npytest\n")
    began_s = time.process_time()
    assert runners_of(GradingJob.of(task, output=tmp_path / "output")) == ("pytest",)
    assert time.process_time() - began_s < 5
