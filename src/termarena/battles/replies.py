"""What an agent answers over A2A, however it says it: a message, artifacts, or the last words of a task."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from a2a.types import a2a_pb2
from google.protobuf.json_format import MessageToDict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from a2a.types import Artifact, Part, StreamResponse, Task, TaskStatus

__all__ = ["Gathering", "Reply"]

_ENDED: Final = frozenset(
    {
        a2a_pb2.TASK_STATE_COMPLETED,
        a2a_pb2.TASK_STATE_FAILED,
        a2a_pb2.TASK_STATE_CANCELED,
        a2a_pb2.TASK_STATE_REJECTED,
    }
)
_WAITING: Final = frozenset({a2a_pb2.TASK_STATE_INPUT_REQUIRED, a2a_pb2.TASK_STATE_AUTH_REQUIRED})


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer, whole."""

    texts: tuple[str, ...]
    tables: tuple[Mapping[str, object], ...]
    """Its data parts that are objects."""
    state: str
    """`completed`, `failed`, `canceled`, `rejected`, `input_required`, `auth_required`, `working` or `message`."""
    task_id: str | None = None
    """To go on with, where the agent waits for input; else None: the next turn is a new task of the same context."""

    @property
    def is_failure(self) -> bool:
        """Whether the agent says that it could not."""
        return self.state in ("failed", "canceled", "rejected", "auth_required")


@dataclass(slots=True)
class Gathering:
    """An answer as its events come in. Chatter of a task that is still at work is kept apart: it is the answer only
    where nothing else comes."""

    task_id: str | None = None
    state: int | None = None
    is_message: bool = False
    _artifacts: dict[str, list[Part]] = field(default_factory=dict)
    _last: Sequence[Part] = ()
    _chatter: Sequence[Part] = ()

    @property
    def has_ended(self) -> bool:
        """Whether nothing more is to come."""
        return self.is_message or self.state in _ENDED or self.state in _WAITING

    def add(self, event: StreamResponse) -> None:
        """One event, in its order."""
        if event.HasField("message"):
            self.is_message = True
            self._last = event.message.parts
        elif event.HasField("task"):
            self.add_task(event.task)
        elif event.HasField("status_update"):
            self.task_id = event.status_update.task_id or self.task_id
            self._take_status(event.status_update.status)
        elif event.HasField("artifact_update"):
            update = event.artifact_update
            self.task_id = update.task_id or self.task_id
            self._take_artifact(update.artifact, is_more=update.append)

    def add_task(self, task: Task) -> None:
        """A task as it is now."""
        self.task_id = task.id or self.task_id
        for artifact in task.artifacts:
            self._take_artifact(artifact, is_more=False)
        self._take_status(task.status)

    def _take_artifact(self, artifact: Artifact, *, is_more: bool) -> None:
        parts = self._artifacts.setdefault(artifact.artifact_id, [])
        if not is_more:
            parts.clear()
        parts.extend(artifact.parts)

    def _take_status(self, status: TaskStatus) -> None:
        self.state = status.state
        if not status.HasField("message"):
            return
        if self.state in _ENDED or self.state in _WAITING:
            self._last = status.message.parts
        else:
            self._chatter = status.message.parts

    def reply(self) -> Reply:
        """What has come, as one answer."""
        parts = [part for parts in self._artifacts.values() for part in parts] + list(self._last)
        if not parts and not self.has_ended:
            parts = list(self._chatter)
        name = "message" if self.is_message else _name(self.state)
        goes_on = self.task_id if self.state == a2a_pb2.TASK_STATE_INPUT_REQUIRED else None
        return Reply(tuple(_texts(parts)), tuple(_tables(parts)), name, goes_on)


def _name(state: int | None) -> str:
    if state is None:
        return "working"
    return str(a2a_pb2.TaskState.Name(state)).removeprefix("TASK_STATE_").lower()


def _texts(parts: Iterable[Part]) -> Iterable[str]:
    return [part.text for part in parts if part.HasField("text") and part.text]


def _tables(parts: Iterable[Part]) -> Iterable[Mapping[str, object]]:
    values = [MessageToDict(part.data) for part in parts if part.HasField("data")]
    return [value for value in values if isinstance(value, dict)]
