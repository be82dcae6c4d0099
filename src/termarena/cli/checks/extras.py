"""Model keys by name, and optional parts of the package."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, requires, version
from typing import TYPE_CHECKING

from termarena.cli.checks.contract import Check

if TYPE_CHECKING:
    from termarena.cli.checks.contract import Machine

__all__ = ["KEY_NAMES", "check_extras", "check_keys"]

KEY_NAMES = (
    "ANTHROPIC_API_KEY",
    "AZURE_API_KEY",
    "COHERE_API_KEY",
    "DASHSCOPE_API_KEY",
    "DEEPSEEK_API_KEY",
    "FIREWORKS_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "GROQ_API_KEY",
    "HF_TOKEN",
    "MISTRAL_API_KEY",
    "MOONSHOT_API_KEY",
    "OPENAI_API_KEY",
    "OPENROUTER_API_KEY",
    "TOGETHER_API_KEY",
    "XAI_API_KEY",
)


def check_keys(machine: Machine) -> Check:
    """Which keys of model providers are set; what they hold is not looked at."""
    present = [name for name in KEY_NAMES if machine.environment.get(name)]
    if present:
        return Check("model keys", "ok", ", ".join(present), details={"names": present})
    advice = "only agents on a hosted model need one: set its variable, such as OPENAI_API_KEY"
    return Check("model keys", "missing", "none is set", advice, {"names": []})


def check_extras(machine: Machine) -> Check:
    """Which of the package's extras are installed."""
    del machine
    extras = _extras()
    if extras is None:
        return Check("extras", "limited", "unknown: TermArena itself is not installed", "make setup, or pip install .")
    lacking = {extra: packages for extra, needed in extras.items() if (packages := _absent(needed))}
    installed = sorted(set(extras) - set(lacking))
    details = {"installed": installed, "lacking": lacking}
    found = f"installed: {', '.join(installed) or 'none'}"
    if lacking:
        listed, names = ", ".join(sorted(lacking)), ",".join(sorted(lacking))
        return Check(
            "extras",
            "limited",
            f"{found}; not: {listed}",
            f"only what needs one asks for it: pip install 'termarena[{names}]'; in a clone: pip install '.[{names}]'",
            details,
        )
    return Check("extras", "ok", found, details=details)


def _extras() -> dict[str, list[str]] | None:
    """The packages of each extra, from the metadata of the installed TermArena; `all` and `dev` only bundle others.

    None when it is not installed but run from its source.
    """
    try:
        declared = requires("termarena") or []
    except PackageNotFoundError:
        return None
    extras: dict[str, list[str]] = {}
    for requirement in declared:
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", requirement)
        package = re.match(r"[\w.-]+", requirement)
        if extra and package and extra[1] not in {"all", "dev"} and package[0] != "termarena":
            extras.setdefault(extra[1], []).append(package[0])
    return extras


def _absent(packages: list[str]) -> list[str]:
    return [package for package in packages if not _is_installed(package)]


def _is_installed(package: str) -> bool:
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True
