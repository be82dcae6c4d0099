"""What a task is about: TerminalWorld's kinds of work, found by the programs used, and our own categories for them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from termarena.forge.steps import Role

if TYPE_CHECKING:
    from collections.abc import Iterable

    from termarena.forge.steps import Step

__all__ = ["THEIRS", "Category", "category_of"]

THEIRS: Final = {
    "software-development": "code_compilation",
    "scripting-automation": "scripting",
    "debugging-troubleshooting": "debugging",
    "testing": "debugging",
    "version-control": "git_operations",
    "data-analysis": "text_processing",
    "ml-training": "ml_training",
    "scientific-computing": "scripting",
    "system-administration": "system_admin",
    "deployment": "system_admin",
    "container-orchestration": "system_admin",
    "networking": "network_config",
    "security": "system_admin",
    "database-operations": "database",
    "performance-optimization": "debugging",
    "monitoring-observability": "system_admin",
    "media-processing": "file_operations",
    "file-management": "file_operations",
    "environment-setup": "package_management",
}
"""TerminalWorld's nineteen, each with the one of ours that comes nearest."""
_PROGRAMS: Final = {
    "version-control": "git hg svn",
    "database-operations": "sqlite3 psql mysql",
    "software-development": "gcc cc g++ clang make cmake ld ar javac rustc cargo go",
    "scripting-automation": "python3 python perl ruby node bash sh",
    "data-analysis": "awk gawk sed grep sort uniq cut tr wc jq paste join comm column head tail",
    "networking": "curl ip ss nc dig",
    "system-administration": "useradd groupadd usermod chown chgrp crontab systemctl service mount",
    "security": "openssl gpg ssh-keygen sha256sum md5sum",
    "media-processing": "ffmpeg convert sox",
    "file-management": "cp mv rm mkdir ln tar zip unzip gzip gunzip find chmod touch cat split rsync xz",
    "environment-setup": "pip pip3 apt apt-get npm",
    "testing": "pytest",
}
_OF: Final = {program: theirs for theirs, programs in _PROGRAMS.items() for program in programs.split()}
# A program that is seldom used in passing says more about a session than one that is used in every other.
_WEIGHTS: Final = {"file-management": 1, "data-analysis": 2, "scripting-automation": 2}


class Category(NamedTuple):
    """Where a task belongs."""

    theirs: str
    ours: str
    tags: tuple[str, ...]
    """The programs that the solution is made of, most used first."""


def category_of(steps: Iterable[Step]) -> Category:
    """The category that most of the solution's programs speak for, each counted once per step."""
    used: Counter[str] = Counter()
    votes: Counter[str] = Counter()
    for step in steps:
        if step.role not in (Role.SOLVE, Role.ANSWER):
            continue
        for words in (simple.bare for simple in step.line.simples):
            name = words[0].rpartition("/")[2] if words else ""
            theirs = _OF.get(name)
            if theirs is not None:
                used[name] += 1
                votes[theirs] += _WEIGHTS.get(theirs, 3)
    theirs = votes.most_common(1)[0][0] if votes else "scripting-automation"
    return Category(theirs, THEIRS[theirs], tuple(name for name, _ in used.most_common(5)) or ("shell",))
