"""What a rule is. Each family of checks declares its own; `RULES` in the package's door is all of them together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from termarena.tasks.model import Finding

__all__ = ["LOADER_RULES", "Rule", "Severity"]

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that is checked. `severity` is the usual one; `docs/rules.md` says where a finding has another."""

    id: str
    """Stable, in kebab case: people write it into their own lists of accepted findings."""
    severity: Severity
    meaning: str
    """One line for a table."""
    hint: str
    """What to do about it."""

    def found(
        self,
        file: str,
        message: str,
        *,
        line: int | None = None,
        severity: Severity | None = None,
        hint: str | None = None,
    ) -> Finding:
        """A finding of this rule; `severity` and `hint` replace the rule's own where one case is unlike the others."""
        return Finding(
            rule=self.id,
            severity=severity or self.severity,
            file=file,
            message=message,
            line=line,
            hint=hint or self.hint,
        )


# What loading says, before any rule here is asked; `docs/rules.md` explains these ids too.
LOADER_RULES = (
    Rule("does-not-load", "error", "a folder that is not a task", "correct the field that the message names"),
    Rule(
        "unknown-field",
        "warning",
        "a field that the format does not know",
        "correct the name, or move the note to [metadata]",
    ),
    Rule("loose-type", "warning", "a value of another type, read as meant", "write the number without quotes"),
    Rule("odd-metadata", "warning", "a metadata field with an unusual value", "write what other tasks put there"),
    Rule("schema-version", "warning", "a schema version that this program does not know", "use one that it knows"),
    Rule(
        "changed-since-listed",
        "warning",
        "a task or file is not as its `dataset.toml` lists it",
        "restore it, or let harbor sync write the new digest",
    ),
    Rule("missing-file", "warning", "a `dataset.toml` lists a file that is not there", "put it there, or unlist it"),
    Rule(
        "digest-not-checked",
        "info",
        "a task's digest in `dataset.toml` could not be checked",
        "lock the dataset with termarena datasets lock",
    ),
    Rule("lost-null", "warning", "a null that a Harbor folder cannot hold", "write another value, or leave it out"),
    Rule(
        "missing-compose",
        "warning",
        "a Terminal-Bench 1 task without a compose file",
        "add docker-compose.yaml, as `tb` needs it",
    ),
    Rule(
        "no-client-container",
        "warning",
        "no service of the compose file is marked as the agent's",
        "set container_name to ${T_BENCH_TASK_DOCKER_CLIENT_CONTAINER_NAME}",
    ),
    Rule("host-mount", "warning", "the agent's service mounts a folder of the host", "COPY it in the Dockerfile"),
    Rule("unknown-category", "warning", "a category that the simple format does not have", "use one that it has"),
)
