"""Tasks that break one rule each, and tasks that come close without breaking it: a clean task with changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from support.folders import HARBOR, TASK_TOML

if TYPE_CHECKING:
    from collections.abc import Mapping

    from termarena.tasks.lint.rule import Severity

DOCKERFILE = "environment/Dockerfile"
CHECKS = "tests/test_outputs.py"
FROM = "FROM debian:bookworm-slim\n"
REWARD = "if pytest /tests/test_outputs.py; then echo 1; else echo 0; fi >/logs/verifier/reward.txt\n"
RUNS_PYTEST = f"#!/bin/sh\n{REWARD}"
GOOD_CHECKS = "def test_one():\n    assert open('/app/one.txt').read() == '1\\n'\n"


class Example(NamedTuple):
    """A task: what differs from a clean one (None removes a file), and the finding that is expected in it."""

    rule: str
    changes: Mapping[str, str | bytes | None]
    severity: Severity
    file: str
    line: int | None = None


class NearMiss(NamedTuple):
    """A task that a careless rule would report, and why it must not."""

    rule: str
    changes: Mapping[str, str | bytes | None]
    why: str


def toml(section: str, line: str) -> dict[str, str | bytes | None]:
    """The usual task.toml with a line more in one of its sections, or with a new section."""
    mark = f"[{section}]\n"
    text = TASK_TOML.replace(mark, f"{mark}{line}\n") if mark in TASK_TOML else f"{TASK_TOML}\n{mark}{line}\n"
    return {"task.toml": text}


def checks(body: str, **others: str | bytes | None) -> dict[str, str | bytes | None]:
    """Python tests run by pytest; `others` are further files."""
    return {"tests/test.sh": RUNS_PYTEST, CHECKS: body, **others}


def recipe(text: str, **others: str | bytes | None) -> dict[str, str | bytes | None]:
    """Another Dockerfile; `others` are further files, by their names in environment/."""
    return {DOCKERFILE: text, **{f"environment/{name}": content for name, content in others.items()}}


LONG = "tar -czf /app/backup.tar.gz --exclude=.git /srv/www/site"
FILES = [
    Example("missing-solution", {"solution/solve.sh": None}, "warning", "solution/solve.sh"),
    Example("empty-tests", {"tests/test.sh": "#!/bin/sh\n# to be written\n"}, "error", "tests/test.sh"),
    Example("missing-shebang", {"tests/test.sh": REWARD, CHECKS: GOOD_CHECKS}, "warning", "tests/test.sh", 1),
    Example("crlf-line-endings", {"solution/solve.sh": "#!/bin/sh\r\necho 1\r\n"}, "error", "solution/solve.sh", 1),
    Example(
        "crlf-line-endings",
        recipe(f"{FROM}COPY make.sh /make.sh\nRUN sh /make.sh\n", **{"make.sh": "#!/bin/sh\r\n"}),
        "warning",
        "environment/make.sh",
        1,
    ),
    Example(
        "cr-after-backslash",
        {"solution/solve.sh": "#!/bin/sh\necho 1 \\\r\n  >/app/one.txt\n"},
        "error",
        "solution/solve.sh",
        2,
    ),
    Example("byte-order-mark", {"tests/test.sh": f"\ufeff{RUNS_PYTEST}"}, "error", "tests/test.sh", 1),
    Example("not-utf-8", checks("") | {CHECKS: b"x = 1\ny = '\xe9'\n"}, "warning", CHECKS, 2),
    Example(
        "merge-conflict",
        {"tests/test.sh": f"#!/bin/sh\n\n<<<<<<< HEAD\n{REWARD}=======\n>>>>>>> main\n"},
        "error",
        "tests/test.sh",
        3,
    ),
    Example("junk-file", {"tests/.test.sh.swp": "b0VIM"}, "info", "tests/.test.sh.swp"),
    Example("empty-dockerfile", recipe("# nothing yet\n"), "error", DOCKERFILE),
    Example(
        "not-executable",
        {"tests/test.sh": f"#!/bin/sh\n/tests/run\n{REWARD}", "tests/run": "#!/bin/sh\n", CHECKS: GOOD_CHECKS},
        "warning",
        "tests/run",
    ),
]
INSTRUCTION = [
    Example("path-not-in-instruction", checks("assert open('/app/two.txt').read()\n"), "warning", CHECKS, 1),
    Example(
        "path-not-in-instruction",
        checks("from pathlib import Path\nBASE = Path('/app')\nassert (BASE / 'deep' / 'two.csv').exists()\n"),
        "warning",
        CHECKS,
        3,
    ),
    Example(
        "path-not-in-instruction",
        checks("import os.path\n\nassert os.path.getsize(os.path.join('/app', 'two.csv'))\n"),
        "warning",
        CHECKS,
        3,
    ),
    Example(
        "path-not-in-instruction",
        {"tests/test.sh": "#!/bin/sh\n[ -f /app/two.txt ] && echo 1 >/logs/verifier/reward.txt\n"},
        "warning",
        "tests/test.sh",
        2,
    ),
    Example(
        "clock-dependent", {"instruction.md": "Write today's date to /app/one.txt.\n"}, "info", "instruction.md", 1
    ),
    Example(
        "clock-dependent",
        checks("from datetime import datetime\nyear = datetime.now().year\n"),
        "info",
        CHECKS,
        2,
    ),
    Example(
        "absolute-date",
        checks("from datetime import datetime\nassert datetime.now().year == 2026\n"),
        "warning",
        CHECKS,
        2,
    ),
    Example(
        "tests-in-instruction",
        {"instruction.md": "Write 1 to /app/one.txt.\nThen run /tests/test.sh.\n"},
        "warning",
        "instruction.md",
        2,
    ),
    Example(
        "leaked-solution-in-instruction",
        {
            "instruction.md": f"Do this:\n\n    {LONG}\n    {LONG}2\n    {LONG}3\n",
            "solution/solve.sh": f"#!/bin/sh\n{LONG}\n{LONG}2\n{LONG}3\n",
        },
        "warning",
        "instruction.md",
        3,
    ),
]
ENVIRONMENT = [
    Example("tests-in-image", recipe(f"{FROM}COPY tests/ /app/tests/\n"), "error", DOCKERFILE, 2),
    Example(
        "tests-in-image",
        recipe(f"{FROM}COPY tests /app/tests\n", **{"tests/test.sh": "#!/bin/sh\nan older copy\n"}),
        "error",
        DOCKERFILE,
        2,
    ),
    Example("solution-in-image", recipe(f"{FROM}ADD solution/solve.sh /root/\n"), "error", DOCKERFILE, 2),
    Example("harness-path-in-image", recipe(f"{FROM}COPY a /tests/a\n", a="1"), "warning", DOCKERFILE, 2),
    Example(
        "missing-copy-source", recipe(f"{FROM}COPY a.txt \\\n  b.txt /app/\n", **{"a.txt": "1"}), "error", DOCKERFILE, 2
    ),
    Example("dockerfile-syntax", recipe(f"{FROM}RUN cat >/a << 'EOF'\nhello\nEOF\n"), "error", DOCKERFILE, 3),
    Example("dockerfile-syntax", recipe(f"{FROM}RUN <<EOF\ntrue\n"), "error", DOCKERFILE, 2),
    Example("dockerfile-syntax", recipe("RUN true\n"), "error", DOCKERFILE, 1),
    Example("user-mismatch", recipe(f"{FROM}USER web\n") | toml("agent", 'user = "agent"'), "warning", DOCKERFILE, 2),
]
BUILD = [
    Example("unpinned-image", recipe("FROM debian\n"), "warning", DOCKERFILE, 1),
    Example("unpinned-image", recipe("ARG TAG=latest\nFROM host:5000/debian:${TAG}\n"), "warning", DOCKERFILE, 2),
    Example("image-without-digest", recipe(FROM), "info", DOCKERFILE, 1),
    Example("platform-pin", recipe("FROM --platform=linux/amd64 debian:12\n"), "warning", DOCKERFILE, 1),
    Example("platform-pin", recipe(f"{FROM}RUN curl -O https://example.com/x-amd64.deb\n"), "info", DOCKERFILE, 2),
    Example("apt-without-update", recipe(f"{FROM}RUN apt-get -y install git=1:2\n"), "warning", DOCKERFILE, 2),
    Example("unpinned-packages", recipe(f"{FROM}RUN pip install --no-cache-dir numpy\n"), "info", DOCKERFILE, 2),
    Example("network-at-build", recipe(f"{FROM}RUN pip install numpy==2.0\n"), "info", DOCKERFILE, 2),
    Example("add-from-network", recipe(f"{FROM}ADD https://example.com/a.bin /a.bin\n"), "warning", DOCKERFILE, 2),
    Example("secret-in-image", recipe(f"{FROM}ENV DB_PASSWORD=hunter2\n"), "info", DOCKERFILE, 2),
    Example(
        "secret-in-image",
        recipe(f'{FROM}ENV API_KEY="{"sk-" + "a1" * 12}"\n'),
        "warning",
        DOCKERFILE,
        2,
    ),
]
GRADING = [
    Example(
        "network-at-grading",
        {"tests/test.sh": f"#!/bin/sh\napt-get update && apt-get install -y curl\n{REWARD}"},
        "warning",
        "tests/test.sh",
        2,
    ),
    Example(
        "network-at-grading",
        {"tests/test.sh": f"#!/bin/sh\nuvx pytest\n{REWARD}"} | toml("verifier", 'network_mode = "no-network"'),
        "error",
        "tests/test.sh",
        2,
    ),
    Example(
        "network-at-grading",
        checks("import subprocess\nsubprocess.run(['pip', 'install', 'numpy'], check=True)\n"),
        "warning",
        CHECKS,
        2,
    ),
    Example("reward-never-written", {"tests/test.sh": "#!/bin/sh\npytest /tests\n"}, "error", "tests/test.sh"),
    Example(
        "unconditional-reward",
        {"tests/test.sh": "#!/bin/sh\npytest /tests || true\necho 1 > /logs/verifier/reward.txt\n"},
        "error",
        "tests/test.sh",
        3,
    ),
    Example(
        "reward-lost-on-failure",
        {"tests/test.sh": f"#!/bin/bash\nset -euo pipefail\npytest /tests\nstatus=$?\n{REWARD}"},
        "warning",
        "tests/test.sh",
        3,
    ),
    Example(
        "reward-read",
        {"tests/test.sh": f"#!/bin/sh\n{REWARD}cat /logs/verifier/reward.txt\n"},
        "info",
        "tests/test.sh",
        3,
    ),
    Example(
        "two-reward-files",
        {"tests/test.sh": f"#!/bin/sh\n{REWARD}echo '{{}}' >/logs/verifier/reward.json\n"},
        "info",
        "tests/test.sh",
        3,
    ),
    Example("sleep-in-tests", checks("import time\ntime.sleep(3)\n"), "info", CHECKS, 2),
    Example("sleep-in-tests", {"tests/test.sh": f"#!/bin/sh\nsleep 5\n{REWARD}"}, "info", "tests/test.sh", 2),
    Example("unseeded-random", checks("import random\nn = random.randint(1, 9)\n"), "info", CHECKS, 2),
    Example("agent-code-in-grader", checks("import sys\nsys.path.insert(0, '/app')\n"), "info", CHECKS, 2),
    Example(
        "skipped-test",
        checks("import pytest\n\ndef test_a():\n    pytest.skip('no server')\n"),
        "warning",
        CHECKS,
        4,
    ),
    Example(
        "skipped-test",
        checks("import pytest\n\n@pytest.mark.skipif(True, reason='')\ndef test_a(): ...\n"),
        "info",
        CHECKS,
        3,
    ),
]
DATA = "id,value\n" + "".join(f"{n},{n * n}\n" for n in range(20))
REACHABILITY = [
    Example(
        "tests-visible",
        checks(GOOD_CHECKS) | recipe(f"{FROM}COPY . /app\n", **{"spec/test_outputs.py": GOOD_CHECKS}),
        "error",
        "environment/spec/test_outputs.py",
    ),
    Example(
        "tests-visible",
        checks(GOOD_CHECKS) | recipe(FROM, **{"spec/test_outputs.py": GOOD_CHECKS}),
        "info",
        "environment/spec/test_outputs.py",
    ),
    Example(
        "solution-visible",
        {"solution/fix.py": DATA} | recipe(f"{FROM}COPY . /app\n", **{"fix.py": DATA}),
        "error",
        "environment/fix.py",
    ),
    Example(
        "test-data-visible",
        checks("open('/tests/wanted.csv')\n", **{"tests/wanted.csv": DATA})
        | recipe(f"{FROM}COPY rows.csv /app/\n", **{"rows.csv": DATA}),
        "warning",
        "environment/rows.csv",
    ),
    Example(
        "answer-in-image",
        recipe(f"{FROM}RUN echo 42 >/opt/expected_total.txt\n") | checks("x = open('/opt/expected_total.txt')\n"),
        "error",
        CHECKS,
        1,
    ),
    Example(
        "answer-named-file",
        recipe(f"{FROM}COPY answers.json /app/\n", **{"answers.json": "{}"}),
        "warning",
        "environment/answers.json",
    ),
    Example(
        "grader-in-image",
        recipe(f"{FROM}COPY verify.py /app/verify.py\n", **{"verify.py": "print('SUCCESS')\n"})
        | {"tests/test.sh": f"#!/bin/sh\npython3 /app/verify.py | grep SUCCESS\n{REWARD}"},
        "warning",
        "tests/test.sh",
        2,
    ),
    Example(
        "solution-text-in-environment",
        {"solution/solve.sh": f"#!/bin/sh\n{LONG}\n{LONG}2\n{LONG}3\n"}
        | recipe(f"{FROM}COPY . /app\n", **{"notes.md": f"# How\n\n{LONG}\n{LONG}2\n{LONG}3\n"}),
        "warning",
        "environment/notes.md",
        3,
    ),
]
REST = [
    Example("no-agent-timeout", {"task.toml": 'schema_version = "1.4"\n'}, "warning", "task.toml"),
    Example("long-grading", toml("verifier", "timeout_sec = 3601.0"), "warning", "task.toml"),
    Example("no-resource-limits", {}, "info", "task.toml"),
    Example("needs-gpu", toml("environment", "gpus = 1"), "info", "task.toml"),
    Example("gpu-type-without-gpu", toml("environment", 'gpu_types = ["H100"]'), "warning", "task.toml"),
    Example("gpu-on-windows", toml("environment", 'gpus = 1\nos = "windows"'), "warning", "task.toml"),
    Example("needless-network", {}, "info", "task.toml"),
    Example(
        "solution-needs-network",
        {"solution/solve.sh": "#!/bin/sh\ncd /app\ngit clone https://example.com/one.git\n"}
        | toml("environment", 'network_mode = "no-network"'),
        "error",
        "solution/solve.sh",
        3,
    ),
    Example("empty-allowlist", toml("agent", 'network_mode = "allowlist"'), "warning", "task.toml"),
    Example("missing-difficulty", {"task.toml": "[agent]\ntimeout_sec = 9.0\n"}, "info", "task.toml"),
    Example("missing-category", {"task.toml": "[agent]\ntimeout_sec = 9.0\n"}, "info", "task.toml"),
    Example("unknown-difficulty", {"task.toml": TASK_TOML.replace("easy", "brutal")}, "info", "task.toml"),
]
EXAMPLES = [*FILES, *INSTRUCTION, *ENVIRONMENT, *BUILD, *GRADING, *REACHABILITY, *REST]

NEAR_MISSES = [
    NearMiss("crlf-line-endings", {"tests/rows.csv": "a,b\r\n"}, "data may have any line ending"),
    NearMiss("crlf-line-endings", recipe(FROM, **{"broken.sh": "#!/bin/sh\r\n"}), "mending it may be the task"),
    NearMiss("not-utf-8", checks("# -*- coding: latin-1 -*-\n"), "the file says so"),
    NearMiss("merge-conflict", {"tests/test.sh": f"#!/bin/sh\ncat <<E\n<<<<<<< a\n>>>>>>> b\nE\n{REWARD}"}, "text"),
    NearMiss("junk-file", recipe(FROM, **{".notes.swp": "b0VIM"}), "finding it may be the task"),
    NearMiss("path-not-in-instruction", checks("assert not open('/app/one.txt').read()\n"), "it is named"),
    NearMiss(
        "path-not-in-instruction", checks("import os\nassert not os.path.exists('/app/x.log')\n"), "must be absent"
    ),
    NearMiss("path-not-in-instruction", checks("open('/app/probe.txt', 'w').write('x')\n"), "the test's own file"),
    NearMiss("path-not-in-instruction", checks("import os\nif os.path.isfile('/app/x.log'): pass\n"), "optional"),
    NearMiss(
        "path-not-in-instruction",
        checks("import os\nassert os.path.exists('/app/uno.txt') or os.path.exists('/app/one.txt')\n"),
        "one of several",
    ),
    NearMiss(
        "path-not-in-instruction",
        checks("for p in ['/app/one.txt', '/app/uno.txt']: open(p)\n"),
        "one of several places, and the first is named",
    ),
    NearMiss(
        "path-not-in-instruction", checks("c.get('/api/users/list')\nopen('/etc/hosts')\n"), "a route; the system's"
    ),
    NearMiss("path-not-in-instruction", checks('"""Looks at /app/two.txt and "/app/two.txt"."""\n'), "only prose"),
    NearMiss(
        "path-not-in-instruction",
        checks("open('/app/data/rows.csv')\n") | recipe(f"{FROM}COPY data /app/data\n", **{"data/rows.csv": "1"}),
        "the agent finds it there",
    ),
    NearMiss(
        "path-not-in-instruction",
        checks("open('/app/part_7.txt')\n", **{"instruction.md": "Write part_1.txt to part_9.txt.\n"}),
        "one of a series",
    ),
    NearMiss(
        "path-not-in-instruction",
        checks("open('/app/users.json')\n", **{"instruction.md": "Write <table>.json for each table.\n"}),
        "described by a pattern",
    ),
    NearMiss("clock-dependent", {"instruction.md": "Assume that the current date is 2024-01-15.\n"}, "a fixed clock"),
    NearMiss("absolute-date", checks("from datetime import datetime\nassert x == datetime(2024, 1, 1)\n"), "no clock"),
    NearMiss(
        "tests-in-image",
        recipe(f"{FROM}COPY tests /app/tests\n", **{"tests/test_project.py": "def test_a(): ...\n"}),
        "the project's own tests",
    ),
    NearMiss("tests-in-image", recipe(f"{FROM}COPY . /app\n"), "the context is environment/"),
    NearMiss(
        "tests-in-image",
        recipe(f"{FROM.strip()} AS build\nCOPY tests /t\n{FROM}COPY --from=build /out /out\n"),
        "only in a stage that is thrown away",
    ),
    NearMiss(
        "missing-copy-source", recipe(f"{FROM}COPY *.tx? data/ /app/\n", **{"a.txt": "", "data/b": ""}), "patterns"
    ),
    NearMiss("missing-copy-source", recipe(f"{FROM}COPY --from=other /x /x\nCOPY <<A /y\n1\nA\n"), "not the context"),
    NearMiss("missing-copy-source", recipe(f'{FROM}COPY ["a b.txt", "/app/"]\n', **{"a b.txt": "1"}), "the JSON form"),
    NearMiss("dockerfile-syntax", recipe(f"{FROM}RUN <<A cat && <<-'B' cat\nname: 1\nA\nfoo\n\tB\n"), "here-documents"),
    NearMiss("dockerfile-syntax", recipe(f"{FROM}RUN a \\\n# why\n\n  && b\n"), "comments in a continuation"),
    NearMiss("user-mismatch", recipe(f"{FROM}USER 0\n") | toml("agent", 'user = "root"'), "the same user"),
    NearMiss("unpinned-image", recipe("FROM debian:12 AS base\nFROM base\n"), "a stage"),
    NearMiss("image-without-digest", recipe(f"FROM debian:12@sha256:{'0' * 64}\n"), "it has one"),
    NearMiss("platform-pin", recipe("FROM --platform=$BUILDPLATFORM debian:12\n"), "chosen by the builder"),
    NearMiss(
        "platform-pin",
        recipe(f"{FROM}ARG TARGETARCH\nRUN curl https://example.com/$TARGETARCH || curl https://example.com/amd64\n"),
        "the recipe chooses",
    ),
    NearMiss("apt-without-update", recipe("FROM a:1 AS b\nRUN apt update\nFROM b\nRUN apt install -y git\n"), "below"),
    NearMiss("unpinned-packages", recipe(f"{FROM}RUN pip install -r requirements.txt a==1 .\n"), "all pinned"),
    NearMiss("add-from-network", recipe(f"{FROM}ADD --checksum=sha256:00 https://example.com/a /a\n"), "verified"),
    NearMiss("network-at-grading", {"tests/test.sh": f"#!/bin/sh\ncurl -s http://localhost:80/\n{REWARD}"}, "loopback"),
    NearMiss("network-at-grading", {"tests/test.sh": f"#!/bin/sh\n# pip install pytest\n{REWARD}"}, "a comment"),
    NearMiss("network-at-grading", {"tests/test.sh": f"#!/bin/sh\npip install --no-index x\n{REWARD}"}, "offline"),
    NearMiss("network-at-grading", checks("assert 'pip install' in open('/app/one.txt').read()\n"), "not run"),
    NearMiss("unconditional-reward", {"tests/test.sh": RUNS_PYTEST}, "it asks"),
    NearMiss(
        "unconditional-reward",
        {"tests/test.sh": "#!/bin/sh\nset -e\npytest /tests || exit 0\necho 1 > /logs/verifier/reward.txt\n"},
        "it leaves before",
    ),
    NearMiss(
        "reward-lost-on-failure",
        {"tests/test.sh": f"#!/bin/bash\nset -e\nset +e\npytest /tests\nstatus=$?\n{REWARD}"},
        "switched off",
    ),
    NearMiss("sleep-in-tests", checks("import time\nfor _ in range(9):\n    time.sleep(1)\n"), "polling"),
    NearMiss(
        "sleep-in-tests",
        {"tests/test.sh": f"#!/bin/sh\nwhile ! nc -z localhost 80\ndo\n  sleep 1\ndone\n{REWARD}"},
        "polling",
    ),
    NearMiss("unseeded-random", checks("import random\nrandom.seed(1)\nn = random.random()\n"), "seeded"),
    NearMiss("agent-code-in-grader", checks("import sys\nsys.path.insert(0, '/tests/lib')\n"), "the tests' own code"),
    NearMiss("skipped-test", checks("x = 'pytest.skip()'  # pytest.skip(1)\n"), "words"),
    NearMiss(
        "test-data-visible",
        checks("x", **{"tests/__init__.py": "# empty\n"}) | recipe(FROM, **{"__init__.py": "# empty\n"}),
        "too small to matter",
    ),
    NearMiss(
        "answer-named-file",
        recipe(f"{FROM}COPY . /app\n", **{"expected_output.txt": "1"})
        | {"instruction.md": "Match expected_output.txt."},
        "the agent is told of it",
    ),
    NearMiss(
        "grader-in-image", {"tests/check.py": "", "tests/test.sh": f"python3 /app/check.py\n{REWARD}"}, "copied there"
    ),
    NearMiss("needless-network", {"instruction.md": "Download https://example.com/one to /app/one.txt.\n"}, "needed"),
    NearMiss("solution-needs-network", {"solution/solve.sh": "#!/bin/sh\npip install x\n"}, "the network is open"),
]


def files_of(changes: Mapping[str, str | bytes | None]) -> dict[str, str | bytes]:
    """All files of a task with these changes."""
    return {name: text for name, text in {**HARBOR, **changes}.items() if text is not None}
