"""Sending a run to an arena, whole or piece by piece while it goes on. A run does not wait for it, nor fail by it."""

from __future__ import annotations

import io
import json
import tarfile
import threading
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from termarena.core.errors import FetchError, MissingExtra, Refused, UsageError
from termarena.runs.journal import JournalReader, Tail

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    import httpx

    from termarena.core.run_folder import RunFolder

__all__ = ["Sender", "Streaming"]

FILES: Final = ("trajectory.json", "tool_calls.json", "changes.json", "changes-more.jsonl", "metrics.json")
INTERVAL_S: Final = 3.0
PATIENCE_S: Final = 60.0
PIECE_BYTES: Final = 64 << 20
"""An archive gets no further attempt once it holds so much before it is packed."""
LAST_TRIES: Final = 5


class _Piece(NamedTuple):
    """An archive, up to where in the journal it reaches, and how many trials are in it."""

    archive: bytes
    end: Tail
    trials: int


class Sender:
    """One run on its way to one arena."""

    def __init__(self, folder: RunFolder, url: str, key: str) -> None:
        """Nothing is sent yet. Raises UsageError for what is no address, MissingExtra without httpx."""
        if not url.startswith(("http://", "https://")):
            raise UsageError(f"{url} is no address of an arena", hint="https://arena.example")
        try:
            import httpx  # noqa: PLC0415 - an extra
        except ModuleNotFoundError as error:
            raise MissingExtra("httpx", extra="fetch", purpose="sending a run") from error
        self._folder = folder
        headers = {"Authorization": f"Bearer {key}"}
        self._client: httpx.Client = httpx.Client(base_url=url.rstrip("/"), headers=headers, timeout=PATIENCE_S)
        self._sent: Tail | None = None
        self.page = f"{url.rstrip('/')}/runs/{folder.id}"
        self.command = f"termarena submit {folder.path} --arena {url}"

    def send(self) -> int:
        """Send what is not there yet, and return how many trials that were.

        Raises Refused with the arena's reason, FetchError where it does not answer; both can be tried again.
        """
        sent, trials = self._sent or self._found_place(), 0
        self._sent = None  # whatever fails from here on: the arena is asked again how much it has
        while piece := self._next_piece(sent):
            self._ask("PUT", f"/api/runs/{self._folder.id}/archive?journal_from={sent.size_bytes}", piece.archive)
            sent = piece.end
            trials += piece.trials
        self._sent = sent
        return trials

    def close(self) -> None:
        """Send no more."""
        self._client.close()

    def _found_place(self) -> Tail:
        """Where sending goes on: what is there was sent before, by this process or another."""
        told = json.loads(self._ask("GET", f"/api/runs/{self._folder.id}/journal"))
        size = int(told["size_bytes"])
        reader = JournalReader(self._folder.journal)
        for _ in reader if size else ():
            if reader.tail.size_bytes >= size:
                break
        if size and reader.tail.size_bytes != size:
            raise Refused("the arena has another run of this name", status=409, hint="rename the run's folder")
        return reader.tail if size else Tail()

    def _next_piece(self, sent: Tail) -> _Piece | None:
        """What comes next; None where all is sent."""
        buffer, reader = io.BytesIO(), JournalReader(self._folder.journal)
        packed = trials = 0
        with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=5) as tar:
            for event in reader:
                if event.seq > sent.seq and event.name in {"trial_finished", "trial_regraded"}:
                    packed += self._pack(tar, event.fields)
                    trials += 1
                if packed > PIECE_BYTES:
                    break
            end = reader.tail
            if end.seq <= sent.seq:
                return None
            if not sent.seq:
                tar.add(self._folder.config_lock, arcname="config.lock.json", filter=_plain)
            with self._folder.journal.open("rb") as journal:
                journal.seek(sent.size_bytes)
                _add(tar, "journal.jsonl", journal.read(end.size_bytes - sent.size_bytes))
        return _Piece(buffer.getvalue(), end, trials)

    def _pack(self, tar: tarfile.TarFile, fields: dict[str, Any]) -> int:
        folder = self._folder.attempt(fields["task_id"], fields["attempt"], retry=fields["retry"])
        place, packed = folder.path.relative_to(self._folder.path), 0
        named = {"result.json": folder.result, "test_output.txt": folder.test_output}
        named |= {name: folder.path / name for name in FILES}
        named |= {path.name: path for path in _casts(folder.path)}
        for name, path in named.items():
            if path.is_file():
                packed += path.stat().st_size
                tar.add(path, arcname=f"{place}/{name}", filter=_plain)
        return packed

    def _ask(self, method: str, path: str, content: bytes | None = None) -> bytes:
        import httpx  # noqa: PLC0415 - an extra

        try:
            answer = self._client.request(method, path, content=content)
        except httpx.HTTPError as error:
            hint = (
                "look whether the arena runs (termarena serve) and the address is right; what is sent is not sent twice"
            )
            raise FetchError(str(self._client.base_url), str(error) or type(error).__name__, hint=hint) from error
        if answer.is_success:
            return answer.content
        try:
            told = answer.json()["error"]["message"]
        except (ValueError, KeyError, TypeError):
            told = f"HTTP {answer.status_code}"
        raise Refused(f"the arena refuses: {told}", status=answer.status_code, hint="see TERMARENA_ARENA_KEY")


class Streaming:
    """A thread that sends a run while it goes on; `tell` gets a sentence when that fails, and when it works again."""

    def __init__(self, sender: Sender, tell: Callable[[str], None], *, interval_s: float = INTERVAL_S) -> None:
        """Starts with the block."""
        self._sender = sender
        self._tell = tell
        self._interval_s = interval_s
        self._end = threading.Event()
        self._is_failing = False
        self._thread = threading.Thread(target=self._go_on, name="arena-sender", daemon=True)

    def __enter__(self) -> Self:
        """Begin to send."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Send the rest."""
        self._end.set()
        self._thread.join()
        self._sender.close()

    def _go_on(self) -> None:
        while not self._end.wait(self._interval_s):
            self._try()
        for _ in range(LAST_TRIES):
            if self._try():
                return
        self._tell(f"the arena did not get the whole run; send the rest with: {self._sender.command}")

    def _try(self) -> bool:
        try:
            self._sender.send()
        except (Refused, FetchError, OSError) as error:
            if not self._is_failing:
                self._tell(f"nothing is sent to the arena: {error}")
            self._is_failing = True
            return False
        if self._is_failing:
            self._tell("the arena has everything again")
        self._is_failing = False
        return True


def _casts(folder: Path) -> Iterator[Path]:
    return iter(sorted(folder.glob("terminal*.cast")))


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """A file without its owner; anything else stays here."""
    if not member.isreg():
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))
