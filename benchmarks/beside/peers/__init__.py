"""The harnesses that are measured side by side: how each is started, and what its result folder says.

Every one of them is given a `Job` and answers with one `Row` per task folder, in the same three words. What a harness
counts as zero although nothing was measured (an exception of its own, an image that did not build, output that it could
not parse) is `unscored` here, with its own name for it in the note: that is not a statement about the agent.
"""

from peers.contract import Harness, Job, Ran, Row, Verdict
from peers.harbor import Harbor
from peers.machine import machine_facts
from peers.running import run_measured
from peers.termarena_itself import TermArena
from peers.terminal_bench import TerminalBench

__all__ = [
    "Harbor",
    "Harness",
    "Job",
    "Ran",
    "Row",
    "TermArena",
    "TerminalBench",
    "Verdict",
    "machine_facts",
    "run_measured",
]
