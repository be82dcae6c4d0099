"""Keys of agents, as the database may hold them: sealed with a secret that is not in it."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Final

from cryptography.fernet import Fernet, InvalidToken

from termarena.core.errors import UsageError

__all__ = ["Seal"]

VARIABLE: Final = "TERMARENA_ARENA_SECRET"
FILE: Final = ".arena-secret"
HINT: Final = f"register the agent again, or give all servers of this database the same {VARIABLE}"


class Seal:
    """What closes and opens keys: TERMARENA_ARENA_SECRET, or else a file beside the runs that only its owner reads."""

    def __init__(self, runs: Path) -> None:
        """Nothing is read or made before there is a key."""
        self._file = runs / FILE

    def close(self, key: str) -> str:
        """The key as nobody reads it. Raises OSError, and UsageError for a secret that is none."""
        return self._fernet(makes=True).encrypt(key.encode()).decode()

    def open(self, sealed: str) -> str:
        """The key. Raises UsageError where another secret closed it, or the secret cannot be read."""
        try:
            return self._fernet(makes=False).decrypt(sealed.encode()).decode()
        except (InvalidToken, FileNotFoundError) as error:
            raise UsageError("the agent's key was sealed by another server", hint=HINT) from error
        except OSError as error:
            raise UsageError(f"{FILE} cannot be read: {error.strerror}", hint=HINT) from error

    def _fernet(self, *, makes: bool) -> Fernet:
        secret = os.environ.get(VARIABLE, "").encode()
        if not secret:
            if makes:
                self._make()
            secret = self._file.read_bytes()
        try:
            return Fernet(secret)
        except ValueError as error:
            hint = "python -c 'from cryptography.fernet import Fernet; print(Fernet.generate_key().decode())'"
            where = VARIABLE if os.environ.get(VARIABLE) else FILE
            raise UsageError(f"{where} is no secret: 32 random bytes in base64", hint=f"make one: {hint}") from error

    def _make(self) -> None:
        """Once: of all who begin together, here or in another server, one is first, and the others read its secret."""
        if self._file.exists():
            return
        handle, draft = tempfile.mkstemp(prefix=f"{FILE}-", dir=self._file.parent)  # its owner alone reads it
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(Fernet.generate_key())
                file.flush()
                os.fsync(file.fileno())
            with contextlib.suppress(FileExistsError):
                os.link(draft, self._file)
        finally:
            Path(draft).unlink()
