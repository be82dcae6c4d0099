"""API keys: who may submit and administer. A key is shown once, when it is made; the database has its hash.

A key has 256 random bits, so that a plain SHA-256 cannot be turned back: slow hashes are for passwords.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, get_args

from sqlalchemy import select, update
from sqlalchemy.exc import IntegrityError

from termarena.arena.schema import Key
from termarena.core.errors import NotFound, UsageError
from termarena.runs.journal import now

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy.orm import Session

    from termarena.arena.database import Database

__all__ = ["SCOPES", "Holder", "KeyRow", "Scope", "add_key", "holder_of", "list_keys", "revoke_key"]

Scope = Literal["read", "submit", "admin"]
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
PREFIX: Final = "ta_"
LONGEST_KEY: Final = 100


@dataclass(frozen=True, slots=True)
class Holder:
    """Whoever holds a key that is valid."""

    name: str
    scopes: frozenset[str]

    def may(self, scope: Scope) -> bool:
        """An administrator may everything; whoever submits may read."""
        return bool(self.scopes & {scope, "admin"}) or (scope == "read" and "submit" in self.scopes)


@dataclass(frozen=True, slots=True)
class KeyRow:
    """A key in a list; never the key itself."""

    name: str
    scopes: tuple[str, ...]
    created_at: str
    revoked_at: str | None


def add_key(database: Database, name: str, scopes: Iterable[Scope]) -> str:
    """A new key; it cannot be shown again. Raises UsageError for a name that is taken, now or before."""
    token = PREFIX + secrets.token_urlsafe(32)
    told = " ".join(sorted(set(scopes)))
    try:
        with database.writing() as session:
            session.add(Key(name=name, hash=_hash(token), scopes=told, created_at=now(), revoked_at=None))
    except IntegrityError as error:
        raise UsageError(f"there is, or was, a key called {name}", hint="choose another name") from error
    return token


def list_keys(database: Database) -> list[KeyRow]:
    """All, revoked ones too, by name."""
    with database.reading() as session:
        return [
            KeyRow(key.name, tuple(key.scopes.split()), key.created_at, key.revoked_at)
            for key in session.scalars(select(Key).order_by(Key.name))
        ]


def revoke_key(database: Database, name: str) -> None:
    """From now on it is none. Raises NotFound where no valid key has this name."""
    with database.writing() as session:
        chosen = update(Key).where(Key.name == name, Key.revoked_at.is_(None)).values(revoked_at=now())
        found = session.scalars(chosen.returning(Key.id)).all()
    if not found:
        known = tuple(row.name for row in list_keys(database) if row.revoked_at is None)
        raise NotFound(f"no valid key is called {name}", known=known)


def holder_of(session: Session, token: str) -> Holder | None:
    """Who holds the key; None for what is none, or is none any more."""
    if not token.startswith(PREFIX) or len(token) > LONGEST_KEY:
        return None
    # The database compares hashes: how long that takes tells nothing of the key.
    key = session.scalars(select(Key).where(Key.hash == _hash(token), Key.revoked_at.is_(None))).first()
    return None if key is None else Holder(key.name, frozenset(key.scopes.split()))


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
