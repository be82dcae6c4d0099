"""Results of other harnesses, read as they are and written as runs of ours, for reports and comparisons."""

from termarena.runs.importing.foreign import Ended, ForeignRun, pooled
from termarena.runs.importing.harbor import read_harbor
from termarena.runs.importing.terminal_bench import read_terminal_bench
from termarena.runs.importing.writing import write_foreign

__all__ = ["Ended", "ForeignRun", "pooled", "read_harbor", "read_terminal_bench", "write_foreign"]
