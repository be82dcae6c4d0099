"""What is built holds everything and is the same each time; a missing extra is asked for by its name."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from hashlib import sha256
from importlib import metadata
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

import termarena as package
from running import PATIENCE_S

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# Times of files in what is built; any moment after 1980 would do.
EPOCH = "1700000000"
LONG_S = 1800
OUR_PIP = (sys.executable, "-m", "pip")


def _run(*words: str, cwd: Path, patience_s: float = PATIENCE_S, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "SOURCE_DATE_EPOCH": EPOCH, "PYTHONDONTWRITEBYTECODE": "1", **variables}
    return subprocess.run(  # noqa: S603 - our own programs
        words, cwd=cwd, env=environment, capture_output=True, text=True, timeout=patience_s, check=False
    )


def _copy(folder: Path) -> Path:
    """What a wheel is made from, beside a small site."""
    clone = folder / "clone"
    shutil.copytree(ROOT / "src", clone / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", ".gitignore"):
        shutil.copy(ROOT / name, clone)
    (clone / "site").mkdir()
    (clone / "site" / "index.html").write_text("<p>pages</p>")
    return clone


def _wheel(clone: Path, out: Path) -> Path:
    done = _run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), ".", cwd=clone)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = out.iterdir()
    return wheel


@pytest.mark.slow
def test_a_wheel_holds_everything_and_is_the_same_each_time(tmp_path: Path) -> None:
    clone = _copy(tmp_path)
    first, second = _wheel(clone, tmp_path / "first"), _wheel(clone, tmp_path / "second")
    assert sha256(first.read_bytes()).digest() == sha256(second.read_bytes()).digest()

    with zipfile.ZipFile(first) as archive:
        held = set(archive.namelist())
        archive.extractall(tmp_path / "installed")
    sources = {path.relative_to(clone / "src").as_posix() for path in (clone / "src").rglob("*") if path.is_file()}
    assert len(sources) > 800
    assert sources <= held
    assert {"termarena/site/index.html", f"termarena-{package.__version__}.dist-info/licenses/LICENSE"} <= held
    assert {name for name in held if name.endswith("asciinema-player.LICENSE")}

    listed = _run(
        sys.executable,
        "-m",
        "termarena",
        "tasks",
        "list",
        "--json",
        cwd=tmp_path,
        PYTHONPATH=str(tmp_path / "installed"),
    )
    assert listed.returncode == 0, listed.stderr
    tasks = json.loads(listed.stdout)["tasks"]
    assert len(tasks) == 16
    assert str(tmp_path / "installed") in json.dumps(tasks)


def test_the_version_stands_in_one_place() -> None:
    assert PROJECT["dynamic"] == ["version"]
    holders = [
        path for path in (ROOT / "src").rglob("*.py") if f'"{package.__version__}"' in path.read_text(encoding="utf-8")
    ]
    assert [path.relative_to(ROOT).as_posix() for path in holders] == ["src/termarena/__init__.py"]


@pytest.mark.parametrize("lock", ["base", "build", "all", "dev"])
def test_locked_packages_suit_the_oldest_python(lock: str) -> None:
    """Debian 12 has 3.11.2: a package that asks for a later 3.11 could not be installed there."""
    locked = re.findall(r"^([\w.-]+)==", (ROOT / "requirements" / f"{lock}.txt").read_text(), re.MULTILINE)
    wanted = {name: metadata.metadata(name)["Requires-Python"] or "" for name in locked}
    assert len(wanted) > 2
    assert {name: asked for name, asked in wanted.items() if not SpecifierSet(asked).contains("3.11.0")} == {}


# The modules of each extra's packages, where they are not called as the packages are.
MODULE_OF = {"a2a-sdk": "a2a", "python-multipart": "multipart", "tree-sitter": "tree_sitter"}
MODULE_OF |= {"tree-sitter-bash": "tree_sitter_bash", "detect-secrets": "detect_secrets", "protobuf": "google.protobuf"}
# A command that needs the extra; that of `stats` is tried in tests/analysis/test_comparing.py.
ASKS_FOR = {
    "fetch": ["datasets", "pull", "https://127.0.0.1:1/tasks.tar.gz"],
    "models": ["run", "--task", "*/hello-world", "--agent", "tools", "--model", "openai:none@http://127.0.0.1:1/v1"],
    "litellm": ["run", "--task", "*/hello-world", "--agent", "tools", "--model", "litellm:ollama/none"],
    "ray": ["run", "--sample", "--engine", "ray", "--address", "127.0.0.1:1"],
    "broker": ["broker", "--model", "scripted:says.json"],
    "battles": ["green", "--port", "0"],
    "images": ["images", "pull", "127.0.0.1:1/none:1"],
    "proof": ["prove", "hello-world"],
    "forge": ["forge", "run", "session.txt"],
    "arena": ["serve", "--port", "0"],
}
WITHOUT = """
import sys
for name in sys.argv[1].split(","):
    sys.modules[name] = None  # as if it were not installed
from termarena.cli.main import main
sys.exit(main(sys.argv[2:]))
"""


def _modules(extra: str) -> list[str]:
    names = [re.split(r"[\[>=<]", entry)[0] for entry in PROJECT["optional-dependencies"][extra]]
    return [MODULE_OF.get(name, name) for name in names]


def _prepare(folder: Path) -> None:
    (folder / "says.json").write_text('{"replies": [{"content": "no"}]}')
    (folder / "session.txt").write_text("$ ls\n")


def test_every_extra_is_tried() -> None:
    assert set(ASKS_FOR) == set(PROJECT["optional-dependencies"]) - {"all", "dev", "elizaos", "stats"}


@pytest.mark.slow
@pytest.mark.parametrize("extra", sorted(ASKS_FOR))
def test_without_an_extra_the_error_names_it(extra: str, tmp_path: Path) -> None:
    _prepare(tmp_path)
    done = _run(sys.executable, "-c", WITHOUT, ",".join(_modules(extra)), *ASKS_FOR[extra], cwd=tmp_path)
    assert done.returncode == 2, done.stdout + done.stderr
    assert re.search(rf"hint: pip install 'termarena\[{extra}\]'", done.stderr), done.stderr


@pytest.mark.soak
@pytest.mark.timeout(2 * LONG_S)
def test_sdist_and_wheel_are_the_same_each_time(tmp_path: Path) -> None:
    """As `make dist` builds them, site included: the sdist first, the wheel from it."""
    digests = []
    for number in ("1", "2"):
        out = tmp_path / number
        words = (sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), ".")
        done = _run(*words, cwd=ROOT, patience_s=LONG_S)
        assert done.returncode == 0, done.stdout + done.stderr
        digests.append({path.name: sha256(path.read_bytes()).hexdigest() for path in out.iterdir()})
    assert len(digests[0]) == 2
    assert digests[0] == digests[1]
    (wheel,) = (tmp_path / "1").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert "termarena/site/reference/cli/run.html" in archive.namelist()


def _python(minor: int, folder: Path) -> str | None:
    """An interpreter of this version that works: on the PATH, or beside the one that runs the tests."""
    name = f"python3.{minor}"
    beside = Path(sys.base_prefix).parent.glob(f"3.{minor}.*/bin/{name}")
    found = [shutil.which(name), *map(str, beside)]
    return next((one for one in found if one and _run(one, "--version", cwd=folder).returncode == 0), None)


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel, made once for all who install it."""
    folder = tmp_path_factory.mktemp("built")
    return _wheel(_copy(folder), folder / "dist")


@pytest.mark.soak
@pytest.mark.timeout(2 * LONG_S)
@pytest.mark.parametrize("minor", [11, 12, 13])
@pytest.mark.parametrize("extra", ["", "stats", *sorted(ASKS_FOR)])
def test_an_installation_in_a_clean_environment(minor: int, extra: str, tmp_path: Path, built: Path) -> None:
    """The wheel and one extra from the index, as a user installs them; then what they promise."""
    python = _python(minor, tmp_path)
    if python is None:
        pytest.skip(f"python3.{minor} is not there; install it, or `pyenv install 3.{minor}`")
    own = tmp_path / "env" / "bin"
    # With an extra, the pip that is here installs into the environment: it need not get one of its own each time.
    how, pip = ([], ["env/bin/pip"]) if not extra else (["--without-pip"], [*OUR_PIP, "--python", str(own / "python")])
    assert _run(python, "-m", "venv", *how, "env", cwd=tmp_path, patience_s=LONG_S).returncode == 0
    named = f"{built}[{extra}]" if extra else str(built)
    installed = _run(*pip, "install", "--quiet", named, cwd=tmp_path, patience_s=LONG_S)
    assert installed.returncode == 0, installed.stderr
    imports = "; ".join(f"import {name}" for name in _modules(extra)) if extra else "pass"
    assert _run(str(own / "python"), "-c", imports, cwd=tmp_path, patience_s=LONG_S).returncode == 0
    words = (str(own / "termarena"), "run", "--task", "*/hello-world", "--out", "run")
    done = _run(*words, cwd=tmp_path, patience_s=LONG_S, PYTHONPATH="")
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "run" / "report.json").read_text())["solved"] == 1


@pytest.mark.soak
@pytest.mark.timeout(2 * LONG_S)
def test_pipx_installs_the_programs(tmp_path: Path, built: Path) -> None:
    """pipx from the index in an environment of its own, then the wheel with an extra, as its users do."""
    assert _run(sys.executable, "-m", "venv", "env", cwd=tmp_path, patience_s=LONG_S).returncode == 0
    got = _run("env/bin/pip", "install", "--quiet", "pipx", cwd=tmp_path, patience_s=LONG_S)
    assert got.returncode == 0, got.stderr
    places = {"PIPX_HOME": str(tmp_path / "pipx"), "PIPX_BIN_DIR": str(tmp_path / "bin")}
    installed = _run("env/bin/pipx", "install", f"{built}[stats]", cwd=tmp_path, patience_s=LONG_S, **places)
    assert installed.returncode == 0, installed.stderr
    assert {path.name for path in (tmp_path / "bin").iterdir()} == set(PROJECT["scripts"])
    done = _run(
        str(tmp_path / "bin" / "termarena"),
        "run",
        "--task",
        "*/hello-world",
        "--out",
        "run",
        cwd=tmp_path,
        PYTHONPATH="",
    )
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "run" / "report.json").read_text())["solved"] == 1


@pytest.mark.soak
@pytest.mark.timeout(2 * LONG_S)
def test_an_isolated_build_is_the_one_without_isolation(tmp_path: Path) -> None:
    """`python -m build` as anybody calls it, with a build system of its own from the index: the same wheel."""
    clone = _copy(tmp_path)
    words = (sys.executable, "-m", "build", "--wheel", "--outdir", str(tmp_path / "isolated"), ".")
    done = _run(*words, cwd=clone, patience_s=LONG_S)
    assert done.returncode == 0, done.stdout + done.stderr
    (isolated,) = (tmp_path / "isolated").iterdir()
    with zipfile.ZipFile(isolated) as one, zipfile.ZipFile(_wheel(clone, tmp_path / "plain")) as other:
        names = {name for name in one.namelist() if not name.endswith(("WHEEL", "RECORD"))}
        assert names == {name for name in other.namelist() if not name.endswith(("WHEEL", "RECORD"))}
        assert [name for name in names if one.read(name) != other.read(name)] == []
