"""The task as a folder in Harbor's layout."""

from __future__ import annotations

import shlex
import shutil
from typing import TYPE_CHECKING, Any, Final

import tomli_w

from termarena.forge.categories import category_of
from termarena.forge.packages import packages_for

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from termarena.forge.draft import Draft
    from termarena.forge.repositories import Repository

__all__ = ["NO_LICENCE", "write_environment", "write_task"]

NO_LICENCE: Final = "none found"
"""In the place of the name of a repository's licence file."""
_SETUP: Final = """\
#!/bin/sh
# Makes the start state: runs in the folder that holds this file, as root.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p {workdir}
"""


def write_environment(draft: Draft, folder: Path) -> None:
    """What a start state takes: `task.toml`, `environment/`, `solution/` and a provisional instruction."""
    write_task(draft, folder, instruction="(in the making)\n", tests={"test.sh": "#!/bin/sh\nexit 2\n"}, measured={})


def write_task(
    draft: Draft, folder: Path, *, instruction: str, tests: Mapping[str, str], measured: Mapping[str, Any]
) -> None:
    """Write the whole folder, which need not be there yet. `measured` has `took_s` and `memory_bytes` where known."""
    files = {
        "task.toml": tomli_w.dumps(_document(draft, measured)),
        "instruction.md": instruction,
        "solution/solve.sh": draft.solution,
        **{f"tests/{name}": content for name, content in tests.items()},
        **{f"environment/{name}": content for name, content in _environment(draft).items()},
    }
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
        if name.endswith(".sh"):
            path.chmod(0o755)
    for number, repository in enumerate(draft.repositories, 1):
        target = folder / "environment" / "repositories" / f"{number}.bundle"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(repository.bundle, target)


def _document(draft: Draft, measured: Mapping[str, Any]) -> dict[str, Any]:
    took_s = float(measured.get("took_s", 1.0))
    memory_mb = int(measured.get("memory_bytes") or 0) >> 20
    category = category_of(draft.steps)
    return {
        "schema_version": "1.4",
        "source": draft.source,
        "task": {
            "name": f"forge/{draft.id}",
            "description": draft.title or f"A session of {sum(step.changes for step in draft.steps)} steps.",
            "keywords": list(category.tags),
        },
        "metadata": {
            "difficulty": _difficulty(draft),
            "category": category.ours,
            "tags": list(category.tags),
            "terminalworld_category": category.theirs,
            "recording_digest": draft.digest,
            "recorded_at": draft.recorded_at or "unknown",
            "license": draft.licence or "unknown: ask whoever made the recording",
            "repositories": [_origin(one) for one in draft.repositories],
            "termarena": {
                **({} if draft.is_on_image else {"requires": list(draft.requires), "setup": "setup.sh"}),
                "tests": {"verdict": "reward_pipe"},
            },
        },
        "agent": {"timeout_sec": float(min(3600, max(300, round(60 * took_s))))},
        "verifier": {"timeout_sec": 120.0},
        "environment": {
            "build_timeout_sec": 600.0,
            "cpus": 1,
            "memory_mb": max(1024, 1 << (2 * memory_mb).bit_length()),
            "storage_mb": 2048,
            "network_mode": "no-network",
            "workdir": draft.workdir,
        },
    }


def _difficulty(draft: Draft) -> str:
    steps = sum(step.changes for step in draft.steps)
    return "easy" if steps <= 3 else "medium" if steps <= 10 else "hard"  # noqa: PLR2004 - by the length of the solution


def _environment(draft: Draft) -> dict[str, str]:
    files = {"Dockerfile": _dockerfile(draft), "setup.sh": _setup(draft), "compose.yaml": _COMPOSE}
    files |= {f"files/{number}": given.content for number, given in enumerate(draft.inputs, 1)}
    if draft.preparation is not None:
        files["inputs.sh"] = draft.preparation
    return files


# For people with Compose alone: of a file called docker-compose.yaml, harnesses think that it brings services.
_COMPOSE: Final = """\
# The start state by hand: docker compose -f environment/compose.yaml run --rm main bash
services:
  main:
    build: .
    init: true
    network_mode: none
    command: ["sleep", "infinity"]
"""


def _origin(repository: Repository) -> dict[str, str]:
    licence = repository.licence or NO_LICENCE
    return {"url": repository.clone.url, "commit": repository.commit, "license_file": licence}


def _dockerfile(draft: Draft) -> str:
    lines = [f"FROM {draft.base_image}"]
    if packages := _debian(draft):
        install = "apt-get update && apt-get install -y --no-install-recommends"
        if draft.archive is not None:
            lines.append(_AS_OF.format(archive=draft.archive))
            install += " --allow-downgrades"
        lines.append(f"RUN {install} {shlex.join(packages)} && rm -rf /var/lib/apt/lists/*")
    lines += _language_packages(draft)
    lines += [f"WORKDIR {draft.workdir}", "COPY . /tmp/environment"]
    lines.append("RUN sh /tmp/environment/setup.sh && rm -rf /tmp/environment")
    return "\n".join(lines) + "\n"


# The base may be younger than the day: what depends on one version of a library takes that library with it.
_AS_OF: Final = """\
RUN rm -f /etc/apt/sources.list.d/* \\
    && echo 'deb [check-valid-until=no] {archive} bookworm main' >/etc/apt/sources.list \\
    && printf 'Package: *\\nPin: release *\\nPin-Priority: 1001\\n' >/etc/apt/preferences.d/as-of"""


def _debian(draft: Draft) -> list[str]:
    installed = draft.installed
    pip = ("python3-pip",) if installed.python else ()
    npm = ("npm",) if installed.node or installed.node_here else ()
    asked = [name for one in draft.repositories for name in one.needs.debian]
    return sorted({*packages_for(draft.called), *installed.debian, *pip, *npm, *asked})


def _language_packages(draft: Draft) -> list[str]:
    installed = draft.installed
    asked = (name for one in draft.repositories for name in one.needs.python)
    pinned = (f"{name}=={draft.dated[name]}" if name in draft.dated else name for name in asked)
    python = dict.fromkeys([*installed.python, *pinned])
    # npm alone can be told a day: it then takes the newest versions of that day.
    before = f"--before={draft.recorded_at[:10]} " if draft.recorded_at else ""
    lines = [f"# The newest version, which may not be the recording's: {name}" for name in installed.undated]
    if python:
        lines.append(f"RUN pip3 install --no-cache-dir --break-system-packages {shlex.join(python)}")
    if installed.node:
        lines.append(f"RUN npm install --global {before}{shlex.join(installed.node)}")
    if installed.node_here:
        lines.append(f"RUN npm install --prefix {shlex.quote(draft.workdir)} {before}{shlex.join(installed.node_here)}")
    return lines


def _setup(draft: Draft) -> str:
    lines = [_SETUP.format(workdir=shlex.quote(draft.workdir))]
    if "git" in draft.requires:
        lines.append(_GIT)
    lines += [_checkout(number, repository) for number, repository in enumerate(draft.repositories, 1)]
    for number, given in enumerate(draft.inputs, 1):
        path = shlex.quote(given.path)
        lines.append(f'mkdir -p "$(dirname {path})"\ncp "$here/files/{number}" {path}\n')
    if draft.preparation is not None:
        lines.append('bash "$here/inputs.sh"\n')
    return "".join(lines)


def _checkout(number: int, repository: Repository) -> str:
    folder, url, branch = map(shlex.quote, (repository.clone.folder, repository.clone.url, repository.branch))
    fetched = f"refs/forge/{repository.commit}:refs/remotes/origin/{branch}"
    return (
        f"git init -q -b {branch} {folder}\ngit -C {folder} remote add origin {url}\n"
        f'git -C {folder} fetch -q --no-tags "$here/repositories/{number}.bundle" {fetched}\n'
        f"git -C {folder} checkout -q -B {branch} --track origin/{branch}\n"
    )


# A recording shows commits and seldom who git was told to be.
_GIT: Final = """\
cat >/etc/gitconfig <<'GITCONFIG'
[user]
	name = Somebody
	email = somebody@example.com
[init]
	defaultBranch = main
[core]
	pager = cat
[advice]
	detachedHead = false
GITCONFIG
"""
