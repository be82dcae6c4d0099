"""Tasks: one immutable `Task` out of every format, datasets of them, and the bundled samples."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from termarena.tasks.dataset import SAMPLES, BrokenTask, Dataset, load_dataset
    from termarena.tasks.digest import TaskDigest, file_digests, scored_view
    from termarena.tasks.files import FileTree, TreeFile
    from termarena.tasks.load import is_task, load_task
    from termarena.tasks.lock import DatasetLock, lock_of, read_lock, verify_lock, write_lock
    from termarena.tasks.model import Finding, Task
    from termarena.tasks.needs import Need, needs_of, tools_missing_here
    from termarena.tasks.selection import Selection
    from termarena.tasks.write import write_harbor
else:
    from termarena.core.doors import door

    __getattr__ = door(
        __name__,
        dataset="SAMPLES BrokenTask Dataset load_dataset",
        digest="TaskDigest file_digests scored_view",
        files="FileTree TreeFile",
        load="is_task load_task",
        lock="DatasetLock lock_of read_lock verify_lock write_lock",
        model="Finding Task",
        needs="Need needs_of tools_missing_here",
        selection="Selection",
        write="write_harbor",
    )

__all__ = [
    "SAMPLES",
    "BrokenTask",
    "Dataset",
    "DatasetLock",
    "FileTree",
    "Finding",
    "Need",
    "Selection",
    "Task",
    "TaskDigest",
    "TreeFile",
    "file_digests",
    "is_task",
    "load_dataset",
    "load_task",
    "lock_of",
    "needs_of",
    "read_lock",
    "scored_view",
    "tools_missing_here",
    "verify_lock",
    "write_harbor",
    "write_lock",
]
