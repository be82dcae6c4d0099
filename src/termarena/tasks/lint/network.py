"""The network: what a policy allows, against what the reference solution needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from termarena.tasks.lint.rule import Rule
from termarena.tasks.lint.shell import downloads, outside_host

if TYPE_CHECKING:
    from collections.abc import Iterator

    from termarena.tasks.lint.rule import Severity
    from termarena.tasks.lint.view import View
    from termarena.tasks.model import Finding, NetworkPolicy

__all__ = ["RULES", "check"]

NEEDLESS_NETWORK = Rule(
    "needless-network",
    "info",
    "the network is open, though neither instruction nor solution needs it",
    'set network_mode = "no-network" in [environment]',
)
SOLUTION_NEEDS_NETWORK = Rule(
    "solution-needs-network",
    "error",
    "the solution downloads, and the policy forbids it",
    "install it in the Dockerfile, or open the network",
)
EMPTY_ALLOWLIST = Rule(
    "empty-allowlist", "warning", "an allow list without hosts", 'name the hosts, or use network_mode = "no-network"'
)
RULES = (NEEDLESS_NETWORK, SOLUTION_NEEDS_NETWORK, EMPTY_ALLOWLIST)

_NETWORK_WORDS = (
    "download",
    "install",
    "internet",
    "http://",
    "https://",
    "clone",
    "fetch",
    "pip ",
    "npm",
    "apt",
    "url",
    "web",
    "online",
    "api",
    "pull",
)


def check(view: View) -> Iterator[Finding]:
    """The rules of this family."""
    task = view.task
    places: list[tuple[str, NetworkPolicy | None]] = [
        ("environment", task.environment.network),
        ("agent", task.agent.network),
        ("verifier", task.grading.network),
    ]
    for place, policy in places:
        if policy is not None and policy.mode == "allowlist" and not policy.allowed_hosts:
            yield EMPTY_ALLOWLIST.found(view.document, f"[{place}] allows a list of hosts, and the list is empty")
    mode = view.agent_network.mode
    if mode == "none":
        yield from _solution(view)
    elif mode == "public" and view.solutions and not _needs_network(view):
        yield NEEDLESS_NETWORK.found(view.document, "the agent may reach the whole internet, and nothing asks for it")


def _solution(view: View) -> Iterator[Finding]:
    for _, sources in view.solutions:
        for source in sources:
            for found in downloads(source.statements) if source.is_shell else ():
                severity: Severity | None = "warning" if found.may_fail else None
                message = f"`{found.command[:80]}` needs the network, which the policy forbids"
                yield SOLUTION_NEEDS_NETWORK.found(source.name, message, line=found.line, severity=severity)
                break


def _needs_network(view: View) -> bool:
    told = view.instruction.lower()
    if any(word in told for word in _NETWORK_WORDS):
        return True
    for _, sources in view.solutions:
        for source in sources:
            if "://" in source.text and outside_host(source.text):
                return True
            if source.is_shell and downloads(source.statements):
                return True
    return False
