"""The documentation's site: it builds without a warning, holds every page, and loads nothing from another host."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from termarena.cli.main import COMMANDS
from termarena.core import errors

ROOT = Path(__file__).parent.parent
PATIENCE_S = 220
# Whatever a browser would fetch by itself: scripts, styles, images, frames; not the links that a person follows.
LOADED = re.compile(r'<(?:script|img|iframe|source)[^>]+src="([^"]+)"|<link[^>]+href="([^"]+)"')


@pytest.mark.slow
def test_the_site_builds_strictly_and_needs_no_other_host(tmp_path: Path) -> None:
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    site = tmp_path / "site"
    pages = {page.relative_to(site).as_posix(): page.read_text(encoding="utf-8") for page in site.rglob("*.html")}

    sources = {
        page.relative_to(ROOT / "docs").with_suffix(".html").as_posix() for page in (ROOT / "docs").rglob("*.md")
    }
    commands = {f"reference/cli/{name}.html" for name in COMMANDS}
    assert sources | commands <= pages.keys()
    assert all(f'id="{name.lower()}"' in pages["reference/errors.html"] for name in errors.__all__ if name != "Cause")
    assert "termarena.tasks.load_dataset" in pages["reference/python/tasks.html"]
    assert "/api/compare" in pages["reference/rest.html"]
    for output in (ROOT / "benchmarks" / "output").glob("*.json"):
        assert 'id="the-latest-output"' in pages[f"performance/{output.stem}.html"]
    assert "Writes the text that a task shows" in pages["agents.html"]
    assert "A white agent: writes the text" in pages["battles.html"]

    loaded = {target for page in pages.values() for pair in LOADED.findall(page) for target in pair if target}
    assert loaded
    assert [target for target in loaded if re.match(r"(?:https?:)?//", target)] == []
    scripts = [path for path in site.rglob("*") if path.suffix in {".js", ".css"}]
    assert [path for path in scripts if "unpkg" in path.read_text(encoding="utf-8")] == []
