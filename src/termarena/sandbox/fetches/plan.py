"""Where the recordings of a run's tasks are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from termarena.core.run_folder import folder_name
from termarena.sandbox.spec import Fetches
from termarena.tasks.files import RECORDING

__all__ = ["FetchPlan"]


@dataclass(frozen=True, slots=True)
class FetchPlan:
    """Whether the downloads of a run are recorded or replayed, and where."""

    mode: Literal["record", "replay"]
    folder: Path | None = None
    """Holds a folder for each task; None for one in each task's own folder."""

    @classmethod
    def wished(cls, *, record: str | None, replay: str | None) -> FetchPlan | None:
        """What the two options say, of which at most one is given; empty is for the tasks' own folders."""
        if record is not None:
            return cls("record", Path(record) if record else None)
        if replay is not None:
            return cls("replay", Path(replay) if replay else None)
        return None

    def of(self, folder: Path, task_id: str) -> Fetches:
        """The recording of a task, which lies in `folder`; a `tasks.json` has one beside it for all of its tasks."""
        if self.folder is None:
            place = (folder if folder.is_dir() else folder.parent) / RECORDING
        else:
            place = self.folder / folder_name(task_id)
        # Not further than to its parent: a link in a task's folder is not ours to follow.
        return Fetches(mode=self.mode, folder=place.parent.resolve() / place.name)
