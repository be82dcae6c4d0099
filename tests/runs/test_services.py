"""Tasks of several services, from the command line: the same verdicts on every driver."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from running import termarena
from sandbox.composing import BASE, Composer, base_archive
from support.folders import write_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.needs("busybox"), pytest.mark.timeout(900)]

TASK_TOML = '[metadata]\nauthor_name = "t"\n[agent]\ntimeout_sec = 120.0\n[verifier]\ntimeout_sec = 120.0\n'
TASK_TOML += "[environment]\nallow_internet = false\n"
REWARD = "then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n"
HEALTHY = "{test: wget -qO- http://127.0.0.1:8000/, interval: 200ms, timeout: 20s, retries: 300}"

# What counts is a file of the agent's, made of what another service says.
ASK = {
    "task.toml": TASK_TOML,
    "instruction.md": "Write what http://oracle:8000/ says to /answer.\n",
    "environment/docker-compose.yaml": f"""
services:
  main: {{image: BASE, depends_on: {{oracle: {{condition: service_healthy}}}}}}
  oracle:
    build: oracle
    healthcheck: {HEALTHY}
""",
    "environment/oracle/Dockerfile": (
        'FROM BASE\nRUN mkdir /www && echo 42 > /www/index.html\nCMD ["httpd", "-f", "-p", "8000", "-h", "/www"]\n'
    ),
    "solution/solve.sh": "#!/bin/sh\nwget -qO /answer http://oracle:8000/\n",
    "tests/test.sh": f"#!/bin/sh\nif grep -qx 42 /answer; {REWARD}",
}
# What counts is what another service made of the agent's order: files of main alone do not tell.
ORDER = {
    "task.toml": TASK_TOML,
    "instruction.md": "Write a word to /state/order.\n",
    "environment/docker-compose.yaml": """
services:
  main: {image: BASE, volumes: ["state:/state"]}
  worker:
    image: BASE
    volumes: ["state:/state"]
    entrypoint: [sh, -c]
    command: ["until test -s /state/order; do sleep 0.1; done; tr a-z A-Z < /state/order > /state/done; sleep 900"]
volumes: {state: }
""",
    "solution/solve.sh": "#!/bin/sh\necho word > /state/order.new; mv /state/order.new /state/order\n",
    "tests/test.sh": f"#!/bin/sh\ntest -f /state/order && until test -s /state/done; do sleep 0.1; done\n"
    f"if grep -qx WORD /state/done; {REWARD}",
}
# Terminal-Bench 1: the agent's service has another name, and the tests tell by their output.
PEER = {
    "task.yaml": "instruction: Ask the peer.\ndifficulty: easy\nparser_name: pytest\nmax_agent_timeout_sec: 120.0\n"
    "max_test_timeout_sec: 120.0\nrun_tests_in_same_shell: false\n",
    "docker-compose.yaml": f"""
services:
  client:
    build: .
    image: ${{T_BENCH_TASK_DOCKER_CLIENT_IMAGE_NAME}}
    container_name: ${{T_BENCH_TASK_DOCKER_CLIENT_CONTAINER_NAME}}
    command: ["sh", "-c", "sleep infinity"]
    depends_on: [peer]
  peer:
    image: BASE
    command: sh -c "echo from peer > /index.html; exec httpd -f -p 8000 -h /"
    healthcheck: {HEALTHY}
""",
    "Dockerfile": "FROM BASE\nCOPY bash.sh /bin/bash\nWORKDIR /app\n",
    "bash.sh": '#!/bin/sh\nexec sh "$@"\n',
    "solution.sh": "#!/bin/bash\ncase $no_proxy in *peer*) http_proxy=;; esac\nwget -qO /app/said http://peer:8000/\n",
    "run-tests.sh": "#!/bin/bash\necho '=== short test summary info ==='\n"
    "if grep -q 'from peer' /app/said; then echo 'PASSED t.py::test_said'; else echo 'FAILED t.py::test_said'; fi\n",
    "tests/test_outputs.py": "",
}


@pytest.fixture(
    params=[
        "namespace",
        pytest.param("docker", marks=[pytest.mark.soak, pytest.mark.needs("docker", "docker-compose")]),
    ]
)
def composer(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Composer]:
    made = Composer(request.param, tmp_path / "home")
    try:
        made.prepare(base_archive(tmp_path))
        yield made
    finally:
        made.close()


def test_services_give_the_same_verdicts_on_every_driver(composer: Composer, tmp_path: Path) -> None:
    for name, files in (("ask", ASK), ("order", ORDER), ("peer", PEER)):
        write_folder(tmp_path / "tasks" / name, {path: text.replace("BASE", BASE) for path, text in files.items()})
    env = {"TERMARENA_HOME": str(composer.home)}
    seen = {}
    for agent in ("oracle", "nop"):
        words = ("run", "--path", "tasks", "--agent", agent, "--driver", composer.kind, "--json")
        done = termarena(*words, env=env, cwd=tmp_path, patience_s=600)
        assert done.returncode == 0, done.stderr
        report = json.loads(done.stdout)
        seen[agent] = (report["solved"], report["unsolved"], report["unscored"], done.stderr)
    assert [seen[agent][:3] for agent in ("oracle", "nop")] == [(3, 0, 0), (0, 3, 0)], seen
    assert composer.left_over() == []
