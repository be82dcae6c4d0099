"""A limit for one recording, so that none holds up those behind it.

It is counted in the processor time of the thread that works on it: a busy machine makes no recording take too long.
The thread is interrupted between two steps of Python; a process of a pool that a single step holds is ended.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from termarena.core.errors import RecordingTooLong

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["limited", "may_be_ended"]

T = TypeVar("T")
LOOK_S: Final = 0.25
AGAIN_S: Final = 1.0
"""Of processor time: somebody on the way may have caught the interruption."""
GRACE_S: Final = 30.0
"""Of processor time, for a step that cannot be interrupted; laying out a very long screen again takes seconds."""
ENDED: Final = 75
_interrupt: Final = ctypes.pythonapi.PyThreadState_SetAsyncExc


class _Stopped(BaseException):
    """What interrupts; nobody who catches errors catches it."""


def limited(limit_s: float, work: Callable[..., T], *given: object) -> T:
    """What a function returns, or raises; `RecordingTooLong` where it takes more processor time than that."""
    turn = _Turn(limit_s)
    _WATCH.add(turn)
    error: BaseException | None = None
    try:
        try:
            result = work(*given)
        except Exception as caught:  # noqa: BLE001 - raised below, when nobody interrupts any more
            error = caught
        _WATCH.lock.acquire()
        turn.end()
    except BaseException as caught:  # noqa: BLE001 - as above; a second interruption takes a second of work more
        error = RecordingTooLong(limit_s) if isinstance(caught, _Stopped) else caught
        _WATCH.lock.acquire()
        turn.end()
    _WATCH.release()
    if error is not None:
        raise error
    return result


def may_be_ended() -> None:
    """Say that this process works for another one, which notices if it ends: a step that holds it ends it."""
    _WATCH.is_expendable = True


def _clock_of_this_thread() -> Callable[[], float]:
    """What tells its processor time to any thread; the time of day where the system has no such clock."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return time.monotonic
    return partial(time.clock_gettime, time.pthread_getcpuclockid(threading.get_ident()))


@dataclass(eq=False, slots=True)
class _Turn:
    """One recording in one thread."""

    limit_s: float
    thread: int = field(default_factory=threading.get_ident)
    is_over: bool = False
    _now_s: Callable[[], float] = field(default_factory=_clock_of_this_thread)
    _began_s: float = 0.0
    _stopped_s: float = 0.0

    def __post_init__(self) -> None:
        self._began_s = self._now_s()

    def look(self, *, is_expendable: bool) -> None:
        """Interrupt it if it took too long; under the watch's lock."""
        took_s = self._now_s() - self._began_s
        if took_s > self.limit_s + GRACE_S and is_expendable:
            os._exit(ENDED)
        if took_s > max(self.limit_s, self._stopped_s + AGAIN_S):
            self._stopped_s = took_s
            _interrupt(ctypes.c_ulong(self.thread), ctypes.py_object(_Stopped))

    def end(self) -> None:
        """From now on nobody interrupts it; what was to interrupt it is taken back. Under the watch's lock."""
        self.is_over = True
        _interrupt(ctypes.c_ulong(self.thread), None)


class _Watch:
    """Looks at every turn from time to time, in a thread of its own."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.is_expendable = False
        self._turns: list[_Turn] = []
        self._has_turns = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, turn: _Turn) -> None:
        with self.lock:
            self._turns.append(turn)
            if self._thread is None:
                self._thread = threading.Thread(target=self._look, name="watch of recordings", daemon=True)
                self._thread.start()
        self._has_turns.set()

    def release(self) -> None:
        """Let go of the lock, however often it was taken: whoever was interrupted behind it has taken it twice."""
        while True:
            try:
                self.lock.release()
            except RuntimeError:
                return

    def _look(self) -> None:
        while True:
            self._has_turns.wait()
            time.sleep(LOOK_S)
            with self.lock:
                self._turns = [turn for turn in self._turns if not turn.is_over]
                for turn in self._turns:
                    turn.look(is_expendable=self.is_expendable)
                if not self._turns:
                    self._has_turns.clear()


_WATCH: Final = _Watch()
