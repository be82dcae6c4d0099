"""Pulling datasets: from git, a registry, the Hugging Face hub or an archive into the cache, whole and by revision."""

from termarena.tasks.pull.contract import Kind, Plan, Progress, Pulled, PullError, Reason, Step, shown
from termarena.tasks.pull.listing import known_sources, list_pulled
from termarena.tasks.pull.pulling import explain, find_pulled, pull

__all__ = [
    "Kind",
    "Plan",
    "Progress",
    "PullError",
    "Pulled",
    "Reason",
    "Step",
    "explain",
    "find_pulled",
    "known_sources",
    "list_pulled",
    "pull",
    "shown",
]
