"""What a command needs beyond the light installation, looked for before anything starts."""

from __future__ import annotations

__all__ = ["require", "require_forge"]


def require(extra: str, *packages: str, purpose: str) -> None:
    """Raise `MissingExtra` for the first of the packages that is not installed; none of them is imported."""
    from importlib.util import find_spec

    from termarena.core.errors import MissingExtra

    for package in packages:
        if find_spec(package) is None:
            raise MissingExtra(package, extra=extra, purpose=purpose)


def require_forge() -> None:
    """What every stage of the forge needs."""
    require("forge", "detect_secrets", "tree_sitter", "tree_sitter_bash", purpose="making tasks of recordings")
