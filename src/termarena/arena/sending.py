"""Sending a run to an arena, whole or piece by piece while it goes on. A run does not wait for it, nor fail by it."""

from __future__ import annotations

import json
import tarfile
import tempfile
import threading
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple

from termarena.core.errors import FetchError, MissingExtra, Refused, UsageError
from termarena.runs.journal import JournalReader, Tail

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    import httpx

    from termarena.core.run_folder import RunFolder

__all__ = ["Sender", "Streaming", "hand_in"]

FILES: Final = ("trajectory.json", "tool_calls.json", "changes.json", "changes-more.jsonl", "metrics.json")
INTERVAL_S: Final = 3.0
PATIENCE_S: Final = 60.0
PIECE_BYTES: Final = 64 << 20
"""An archive gets no further attempt once it holds so much before it is packed."""
MEMORY_BYTES: Final = 8 << 20
"""Of an archive; a larger one waits on disk."""
CHUNK_BYTES: Final = 1 << 20
LAST_TRIES: Final = 5


class _Piece(NamedTuple):
    """An archive, up to where in the journal it reaches, and how many trials are in it."""

    archive: IO[bytes]
    end: Tail
    trials: int


class Sender:
    """One run on its way to one arena."""

    def __init__(self, folder: RunFolder, url: str, key: str) -> None:
        """Nothing is sent yet. Raises UsageError for what is no address, MissingExtra without httpx."""
        self._client = _open_client(url, key)
        self._folder = folder
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
            with piece.archive as archive:
                self._ask("PUT", f"/api/runs/{self._folder.id}/archive?journal_from={sent.size_bytes}", archive)
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
        buffer = tempfile.SpooledTemporaryFile(max_size=MEMORY_BYTES)  # noqa: SIM115 - whoever sends it closes it
        reader = JournalReader(self._folder.journal)
        packed = trials = 0
        with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=5) as tar:
            for event in reader:
                if event.seq > sent.seq and event.name in {"trial_finished", "trial_regraded"}:
                    packed += self._pack(tar, event.fields)
                    trials += 1
                if event.seq > sent.seq and packed + reader.tail.size_bytes - sent.size_bytes > PIECE_BYTES:
                    break
            end = reader.tail
            if end.seq > sent.seq:
                self._pack_beginning(tar, sent, end)
        if end.seq <= sent.seq:
            buffer.close()
            return None
        buffer.seek(0)
        return _Piece(buffer, end, trials)

    def _pack_beginning(self, tar: tarfile.TarFile, sent: Tail, end: Tail) -> None:
        """The lock, if nothing was sent before, and the part of the journal that follows what was."""
        if not sent.seq:
            tar.add(self._folder.config_lock, arcname="config.lock.json", filter=_plain)
        member = tarfile.TarInfo("journal.jsonl")
        member.size = end.size_bytes - sent.size_bytes
        with self._folder.journal.open("rb") as journal:
            journal.seek(sent.size_bytes)
            tar.addfile(member, journal)

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

    def _ask(self, method: str, path: str, content: IO[bytes] | None = None) -> bytes:
        return _ask(self._client, method, path, content)


def hand_in(bundle: Path, url: str, key: str) -> dict[str, Any]:
    """Send a bundle; what the arena found it to be.

    Raises UsageError for what is no address or no file, Refused with the arena's reason, FetchError.
    """
    try:
        with bundle.open("rb") as content, _open_client(url, key) as client:
            told: dict[str, Any] = json.loads(_ask(client, "POST", "/api/bundles", content))
    except OSError as error:
        if error.filename != str(bundle):
            raise
        raise UsageError(f"cannot read {bundle}: {error.strerror}") from error
    return {"url": f"{url.rstrip('/')}/runs/{told['run']}", **told["verified"]}


def _open_client(url: str, key: str) -> httpx.Client:
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"{url} is no address of an arena", hint="https://arena.example")
    try:
        import httpx  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise MissingExtra("httpx", extra="fetch", purpose="sending a run") from error
    headers = {"Authorization": f"Bearer {key}"}
    return httpx.Client(base_url=url.rstrip("/"), headers=headers, timeout=PATIENCE_S)


def _ask(client: httpx.Client, method: str, path: str, content: IO[bytes] | None = None) -> bytes:
    import httpx  # noqa: PLC0415 - an extra

    try:
        answer = client.request(method, path, content=None if content is None else _chunks(content))
    except httpx.HTTPError as error:
        hint = "look whether the arena runs (termarena serve) and the address is right; what is sent is not sent twice"
        raise FetchError(str(client.base_url), str(error) or type(error).__name__, hint=hint) from error
    if answer.is_success:
        return answer.content
    try:
        told = answer.json()["error"]["message"]
    except (ValueError, KeyError, TypeError):
        told = f"HTTP {answer.status_code}"
    raise Refused(f"the arena refuses: {told}", status=answer.status_code, hint="see TERMARENA_ARENA_KEY")


def _chunks(content: IO[bytes]) -> Iterator[bytes]:
    return iter(lambda: content.read(CHUNK_BYTES), b"")


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
