"""Tasks: one immutable `Task` out of every format, datasets of them, and the bundled samples."""

from termarena.tasks.dataset import SAMPLES, BrokenTask, Dataset, load_dataset
from termarena.tasks.digest import TaskDigest, file_digests, scored_view
from termarena.tasks.files import FileTree, TreeFile
from termarena.tasks.load import is_task, load_task
from termarena.tasks.lock import DatasetLock, lock_of, read_lock, verify_lock, write_lock
from termarena.tasks.model import Finding, Task
from termarena.tasks.needs import Need, needs_of, tools_missing_here
from termarena.tasks.selection import Selection
from termarena.tasks.write import write_harbor

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
