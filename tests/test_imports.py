"""Rooms import only what the map allows, and importing any of them has no effect that anyone could notice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import elizaos_terminal_bench
from import_map import ORDER, PACKAGE, SOURCES, drawn, imported_rooms, is_drawn, room_of

# Beside the rooms: it may import any of them, none imports it, and naming it loads nothing.
FACADE = Path(elizaos_terminal_bench.__file__).parent

_RUNS = {"core", "tasks", "sandbox", "models", "broker", "agents", "grading"}
_PROOF = _RUNS | {"runs", "shell"}
_FORGE = _PROOF | {"proof"}
MAY_IMPORT: dict[str, set[str]] = {
    "core": set(),
    "tasks": {"core"},
    "sandbox": {"core", "tasks"},
    "models": {"core"},
    "broker": {"core", "models", "sandbox"},
    "agents": {"core", "sandbox", "models", "broker", "tasks"},
    "grading": {"core", "sandbox", "tasks"},
    "runs": _RUNS,
    "stats": set(),
    "shell": {"core"},
    "reports": {"core", "runs", "stats"},
    "analysis": {"core", "runs", "stats"},
    "proof": _PROOF,
    "forge": _FORGE,
    "battles": _RUNS | {"runs"},
    "arena": {"core", "battles", "runs", "stats", "reports", "analysis", "proof", "forge"},
}
MAY_IMPORT["cli"] = set(MAY_IMPORT)
MAY_IMPORT["__main__"] = {"cli"}
MAY_IMPORT["__init__"] = set()


def test_the_walk_sees_the_files_it_judges() -> None:
    assert imported_rooms(PACKAGE / "__main__.py") == {"cli"}
    assert "core" in imported_rooms(PACKAGE / "cli" / "main.py")
    assert len(SOURCES) > 20


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_up_the_map(source: Path) -> None:
    room = room_of(source)
    assert room in MAY_IMPORT, f"{room} is a room that the map does not have"
    assert imported_rooms(source) <= MAY_IMPORT[room] | {room}


def test_the_page_shows_what_is_really_imported() -> None:
    assert set(ORDER) == set(MAY_IMPORT) - {"__main__", "__init__"}
    assert "●" in drawn()
    assert is_drawn(), "run scripts/import_map.py"


# Runs in a fresh interpreter: imports the modules named in argv and reports every event that touches the world.
WATCH = """
import importlib, json, os, sys
seen = []
def hook(event, arguments):
    if event == "open":
        path, mode, flags = arguments
        writes = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        code = isinstance(path, str) and path.endswith((".py", ".pyc", ".so"))
        own = isinstance(path, str) and path.startswith((PACKAGE, os.getcwd()))
        if writes or (own and not code):
            seen.append([event, str(path)])
    elif event in TOUCHING:
        seen.append([event, *map(str, arguments)])
PACKAGE, TOUCHING = sys.argv[1], set(sys.argv[2].split())
sys.addaudithook(hook)
for name in sys.argv[3:]:
    importlib.import_module(name)
sys.stderr.write(json.dumps(seen))
"""
TOUCHING = (
    "os.mkdir os.rename os.remove os.rmdir os.symlink os.chmod socket.connect socket.bind subprocess.Popen os.fork"
)


@pytest.mark.parametrize(
    ("package", "sources", "known"),
    [
        (PACKAGE, SOURCES, "termarena.core.settings"),
        (FACADE, sorted(FACADE.rglob("*.py")), "elizaos_terminal_bench.leaderboard"),
    ],
    ids=["termarena", "elizaos_terminal_bench"],
)
def test_importing_prints_reads_and_creates_nothing(
    package: Path, sources: list[Path], known: str, tmp_path: Path
) -> None:
    modules = [".".join((package.name, *path.relative_to(package).with_suffix("").parts)) for path in sources]
    modules = [name.removesuffix(".__init__") for name in modules if not name.endswith("__main__")]
    assert known in modules
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-B", "-c", WATCH, str(package), TOUCHING, *modules],
        cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert json.loads(done.stderr) == []
    assert list(tmp_path.iterdir()) == []


def test_nothing_of_ours_imports_the_facade() -> None:
    assert [str(path) for path in SOURCES if "elizaos_terminal_bench" in path.read_text(encoding="utf-8")] == []


def test_naming_the_facade_loads_nothing_of_ours() -> None:
    code = "import sys, elizaos_terminal_bench; print(any(name.split('.')[0] == 'termarena' for name in sys.modules))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603 - our own
    assert told.stdout == "False\n"


def test_the_watch_notices_what_it_should(tmp_path: Path) -> None:
    (tmp_path / "careless.py").write_text(
        "open('note', 'w').close()\nopen('note').close()\nimport os; os.mkdir('made')\n"
    )
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-B", "-c", WATCH, str(PACKAGE), TOUCHING, "careless"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert [event[0] for event in json.loads(done.stderr)] == ["open", "os.mkdir"]
