"""Whether a run folder holds what it should, before anything is made of it: it may come from anyone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from termarena.core.errors import JournalDamaged, TaskFormatError
from termarena.runs.journal import JournalReader
from termarena.runs.plan import TrialKey
from termarena.runs.result import TrialSummary

if TYPE_CHECKING:
    from termarena.core.run_folder import RunFolder
    from termarena.runs.config_lock import ConfigLock

__all__ = ["MOST_ATTEMPTS", "MOST_TRIALS", "changed_since", "check_plan"]

MOST_TRIALS: Final = 1_000_000
MOST_ATTEMPTS: Final = 10_000
_Count = Annotated[int, Field(ge=0, lt=1 << 31)]
# So that the sums over all trials of a run still fit into a database, and are numbers.
_Many = Annotated[int, Field(ge=0, lt=1 << 40)]
_Amount = Annotated[float, Field(gt=-1e12, lt=1e12)]


class _Loose(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)


class _Started(_Loose):
    journal_version: _Count


class _Resumed(_Loose):
    source: str | None
    changed: Mapping[str, str]


class _Try(_Loose):
    task_id: str
    attempt: _Count
    retry: _Count


class _Ended(_Try):
    """The numbers of a summary that a database has to hold."""

    tests_passed: _Count
    tests_total: _Count
    commands: _Many | None = None
    input_tokens: _Many | None = None
    output_tokens: _Many | None = None
    reward: _Amount | None = None
    cost_usd: Annotated[_Amount, Field(ge=0)] | None = None
    duration_s: _Amount | None = None
    work_s: _Amount | None = None


class _Stopped(_Loose):
    reason: str


_SUMMARY_NAMES: Final = frozenset(TrialSummary.model_fields)
_EVENTS: Final[dict[str, type[_Loose]]] = {
    "run_started": _Started,
    "run_resumed": _Resumed,
    "trial_started": _Try,
    "trial_finished": _Ended,
    "trial_interrupted": _Try,
    "trial_regraded": _Ended,
    "run_interrupted": _Stopped,
    "run_finished": _Loose,
}


def check_plan(folder: RunFolder, lock: ConfigLock) -> None:
    """Raises TaskFormatError for a plan that no machine could hold."""
    if lock.options.attempts > MOST_ATTEMPTS or lock.trials > MOST_TRIALS:
        raise TaskFormatError(
            str(folder.config_lock),
            field="options.attempts",
            found=f"{lock.trials:,} trials",
            expected=f"at most {MOST_TRIALS:,}, and {MOST_ATTEMPTS:,} of one task",
        )


def changed_since(folder: RunFolder, seq: int) -> set[TrialKey]:
    """Look at every event of the journal, and tell the trials that came to an outcome after event `seq`.

    Raises JournalDamaged for the first line that is no event of a run.
    """
    changed: set[TrialKey] = set()
    try:
        for event in JournalReader(folder.journal):
            _check(folder, event.seq, event.name, event.fields)
            if event.seq > seq and event.name in {"trial_finished", "trial_regraded"}:
                changed.add(TrialKey(event.fields["task_id"], event.fields["attempt"]))
    except (
        ValueError,
        TypeError,
        KeyError,
        RecursionError,
    ) as error:  # a checksum that fits around what is no event at all
        raise JournalDamaged(str(folder.journal), line=0, problem="it holds what no journal holds") from error
    return changed


def _check(folder: RunFolder, line: int, name: str, fields: dict[str, Any]) -> None:
    try:
        _EVENTS[name].model_validate(fields)
        if name in {"trial_finished", "trial_regraded"}:
            TrialSummary.model_validate({key: fields[key] for key in _SUMMARY_NAMES & fields.keys()})
    except (KeyError, ValidationError) as error:
        raise JournalDamaged(str(folder.journal), line=line, problem=f"it is no {name} event") from error
