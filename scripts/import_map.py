"""The rooms and what each really imports: read from the source, drawn into docs/architecture.md.

    .venv/bin/python scripts/import_map.py          # draw it anew
    .venv/bin/python scripts/import_map.py --check  # exit 1 where the page shows something else

A lazy import and one for types count as every other.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Final

__all__ = ["ORDER", "PACKAGE", "PAGE", "SOURCES", "drawn", "imported_rooms", "is_drawn", "room_of"]

ROOT: Final = Path(__file__).resolve().parent.parent
PACKAGE: Final = ROOT / "src" / "termarena"
PAGE: Final = ROOT / "docs" / "architecture.md"
SOURCES: Final = sorted(path for path in PACKAGE.rglob("*.py") if "samples" not in path.relative_to(PACKAGE).parts)
# As in the page's table: what stands above may be imported by what stands below.
ORDER: Final = (
    "core", "tasks", "sandbox", "models", "broker", "agents", "grading", "runs", "stats", "reports", "analysis",
    "shell", "proof", "forge", "battles", "arena", "cli",
)  # fmt: skip
BEGIN, END = "<!-- import map: scripts/import_map.py -->\n", "<!-- end of import map -->\n"
# Process 1 of a sandbox imports this folder as a package of its own, without termarena around it.
ALONE: Final = PACKAGE / "sandbox" / "namespace" / "inside"


def room_of(source: Path) -> str:
    """The room that a file is in."""
    return source.relative_to(PACKAGE).with_suffix("").parts[0]


def imported_rooms(source: Path) -> set[str]:
    """The rooms that a file names in any import. Raises `ValueError` for a relative one."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source.read_bytes())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            if node.level == 1 and source.parent == ALONE:
                continue
            if node.level != 0:
                raise ValueError(f"{source}: line {node.lineno} imports relatively")
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    ours = {name.split(".")[1] for name in names if name.startswith("termarena.")}
    return {name for name in ours if (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").is_file()}


def drawn() -> str:
    """The map as a table of text: a row imports the columns that are marked."""
    width = max(map(len, ORDER))
    lines = [" " * width + "  " + " ".join(ORDER[:-1])]
    for room in ORDER:
        files = [imported_rooms(source) for source in SOURCES if room_of(source) == room]
        marks = ("●" if any(other in found for found in files) and other != room else "·" for other in ORDER[:-1])
        cells = (mark.center(len(other)) for mark, other in zip(marks, ORDER, strict=False))
        lines.append(f"{room:{width}}  {' '.join(cells)}".rstrip())
    return "```text\n" + "\n".join(lines) + "\n```\n"


def is_drawn() -> bool:
    """Whether the page shows what the source does."""
    return f"{BEGIN}\n{drawn()}\n{END}" in PAGE.read_text(encoding="utf-8")


def main() -> int:
    """Check or draw."""
    if "--check" in sys.argv[1:]:
        return 0 if is_drawn() else 1
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{drawn()}\n{END}{rest.partition(END)[2]}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
