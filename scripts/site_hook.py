"""What MkDocs asks while it builds the site: pages from the code, the navigation to them, links that leave docs/."""

from __future__ import annotations

import re
import shutil
from importlib.metadata import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.structure.files import File

from site_pages import ROOMS, ROOT, generated_pages
from termarena.cli.main import COMMANDS

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

__all__ = ["on_config", "on_files", "on_page_markdown", "on_post_build"]

_PAGES: dict[str, str] = {}

# Where a file of the repository stands on the site; what is not here is named, not linked.
_PLACES = {
    "README.md": "index.md",
    "benchmarks/README.md": "performance/index.md",
    "benchmarks": "performance/index.md",
    "CHANGELOG.md": "changes.md",
    "CONTRIBUTING.md": "contributing.md",
    "examples": "examples.md",
    "examples/README.md": "examples.md",
}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill in the parts of the navigation that the code decides."""
    _PAGES.update(generated_pages())
    parts: dict[str, list[Any]] = {
        "generated:commands": [{f"termarena {name}": f"reference/cli/{name}.md"} for name in sorted(COMMANDS)],
        "generated:rooms": [{f"termarena.{room}": f"reference/python/{room}.md"} for room in ROOMS],
        "generated:performance": ["performance/index.md", *sorted(_performance())],
    }
    config.nav = _filled(config.nav, parts)
    return config


def _performance() -> list[str]:
    return [page for page in _PAGES if page.startswith("performance/") and page != "performance/index.md"]


def _filled(nav: Any, parts: dict[str, list[Any]]) -> Any:  # noqa: ANN401 - MkDocs' navigation is nested lists and tables
    if isinstance(nav, list):
        return [_filled(entry, parts) for entry in nav]
    if isinstance(nav, dict):
        return {title: _filled(entry, parts) for title, entry in nav.items()}
    return parts.get(nav, nav)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    for name, text in _PAGES.items():
        files.append(File.generated(config, name, content=text))
    return files


_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]*)\]\((?P<target>[^)#\s]+)(?P<anchor>#[^)]*)?\)")


_COPY = re.compile(r"^<!-- copy: (\S+) -->$", re.MULTILINE)


def _shown(found: re.Match[str]) -> str:
    """A file that a page names to be copied, shown in its place."""
    return "```python\n" + (ROOT / found[1]).read_text(encoding="utf-8") + "```\n"


def on_page_markdown(markdown: str, page: Page, **_more: object) -> str:
    """Links from docs/ into the repository become links within the site, or plain words."""
    depth = page.file.src_uri.count("/")
    if page.file.src_uri in {"changes.md", "contributing.md", "examples.md"}:
        markdown = re.sub(r"\]\((?:\.\./)?docs/", "](", markdown)

    markdown = _COPY.sub(_shown, markdown)

    def replaced(found: re.Match[str]) -> str:
        target = found["target"]
        outside = target.startswith("../" * (depth + 1)) or (page.file.generated_by is not None and target in _PLACES)
        if not outside:
            return found[0]
        place = target.removeprefix("../" * (depth + 1)).rstrip("/")
        known = _PLACES.get(place) or ("examples.md" if place.startswith("examples/") else None)
        return f"[{found['text']}]({'../' * depth}{known})" if known else f"{found['text']} (`{place}`)"

    return _LINK.sub(replaced, markdown)


# The theme fetches these two from elsewhere, for diagrams and for old browsers; neither is used here.
_ELSEWHERE = re.compile(r"https://unpkg\.com/[\w@./-]+")
_LICENCE = "licenses/LICENSE"


def on_post_build(config: MkDocsConfig) -> None:
    """Leave out what no page uses, every address that the theme's scripts could load from, and add its licence."""
    assets = Path(config.site_dir, "assets")
    shutil.rmtree(assets / "javascripts" / "lunr", ignore_errors=True)  # stemmers of other languages
    for unused in (
        *assets.rglob("*.map"),
        Path(config.site_dir, "sitemap.xml"),
        Path(config.site_dir, "sitemap.xml.gz"),
    ):
        unused.unlink(missing_ok=True)
    for script in assets.rglob("*.js"):
        script.write_text(_ELSEWHERE.sub("", script.read_text(encoding="utf-8")), encoding="utf-8")
    licence = next(file for file in files("mkdocs-material") or () if str(file).endswith(_LICENCE))
    (assets / "LICENSE-mkdocs-material").write_text(licence.read_text(), encoding="utf-8")
