"""What holds for the repository as a whole: no addresses of registries, a contract on every door, no idle setting."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

import termarena
from termarena.core.settings import SETTING_NAMES

ROOT = Path(__file__).parent.parent
PACKAGE = Path(termarena.__file__).parent

# Taken apart, so that this file does not hold what it looks for.
REGISTRIES = [
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("yarnpkg", "com"),
        ("crates", "io"),
        ("rubygems", "org"),
        ("conda", "anaconda", "org"),
    )
]
INDEX_OPTIONS = re.compile(r"--(?:extra-)?index-url|--find-links|--trusted-host|https?://|file:|\s@\s")


def _repository_files() -> list[Path]:
    """Every file that is, or could be, committed."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],  # noqa: S607 - the git on the PATH
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    names = [name.decode() for name in listed.stdout.split(b"\0") if name]
    return [ROOT / name for name in names if (ROOT / name).is_file()]


@pytest.mark.needs("git")
def test_no_file_names_a_package_registry() -> None:
    files = _repository_files()
    assert ROOT / "pyproject.toml" in files
    pattern = re.compile("|".join(map(re.escape, REGISTRIES)).encode())
    assert [str(file.relative_to(ROOT)) for file in files if pattern.search(file.read_bytes())] == []


@pytest.mark.parametrize("name", ["base", "all", "dev"])
def test_requirements_hold_versions_and_hashes_and_no_address(name: str) -> None:
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    assert not INDEX_OPTIONS.search(text)
    entries = re.findall(r"^([\w.-]+)==\S+((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$", text, re.MULTILINE)
    unindented = [line for line in text.splitlines() if line and not line.startswith((" ", "#"))]
    assert len(entries) == len(unindented) > 10


def _pinned(name: str) -> dict[str, str]:
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    return dict(re.findall(r"^([\w.-]+)==(\S+)", text, re.MULTILINE))


def test_the_three_requirements_agree() -> None:
    base, everything, dev = _pinned("base"), _pinned("all"), _pinned("dev")
    assert base.items() <= everything.items() <= dev.items()


def test_requirements_cover_what_the_package_declares() -> None:
    declared = re.search(r"^dependencies = \[(.*?)\]", (ROOT / "pyproject.toml").read_text(), re.DOTALL | re.MULTILINE)
    assert declared
    names = {name.lower() for name in re.findall(r'"([\w-]+)', declared[1])}
    assert len(names) >= 5
    assert names <= _pinned("base").keys(), "run make lock"


MODULES = sorted(path for path in PACKAGE.rglob("*.py") if "samples" not in path.relative_to(PACKAGE).parts)
FACADE = sorted(PACKAGE.with_name("elizaos_terminal_bench").rglob("*.py"))


@pytest.mark.parametrize("module", [*MODULES, *FACADE], ids=lambda path: str(path.relative_to(PACKAGE.parent)))
def test_every_module_says_what_it_is(module: Path) -> None:
    assert ast.get_docstring(ast.parse(module.read_bytes()))


@pytest.mark.parametrize("name", SETTING_NAMES)
def test_every_setting_is_read_by_someone(name: str) -> None:
    reading = re.compile(rf"\.{re.escape(name)}\b")
    readers = [module for module in MODULES if module.name != "settings.py" and reading.search(module.read_text())]
    assert readers, f"nothing in src reads settings.{name}"


def test_agents_file_is_short() -> None:
    assert 20 < len((ROOT / "AGENTS.md").read_text().splitlines()) < 150
