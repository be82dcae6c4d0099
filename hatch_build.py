"""What a build adds to the files of the repository: the documentation's site.

The sdist is built with the site in it, made anew by MkDocs; a wheel takes the site that lies beside it. So a wheel made
from the sdist, as `python -m build` does, always carries the site, and `pip install .` in a clone needs no MkDocs: it
carries the site of the last `make docs`, or none. An editable installation carries none.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class SiteHook(BuildHookInterface):  # type: ignore[type-arg]  # its parameter is hatchling's own
    """Build the site into an sdist, carry it into a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it collects files; `build_data` says what else goes in."""
        root = Path(self.root)
        site = root / "site"
        if self.target_name == "sdist":
            _build(root, site)
            build_data["force_include"][str(site)] = "site"
        elif version != "editable" and (site / "index.html").is_file():
            build_data["force_include"][str(site)] = "termarena/site"


def _build(root: Path, site: Path) -> None:
    paths = os.pathsep.join(filter(None, [str(root / "src"), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)],
        cwd=root,
        env={**os.environ, "PYTHONPATH": paths, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"the documentation does not build:\n{done.stderr}")
