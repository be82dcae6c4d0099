"""What Alembic runs: the migrations, on the connection that `Database` holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alembic import context

from termarena.arena.schema import Table

if TYPE_CHECKING:
    from sqlalchemy import Connection

__all__ = ["migrate"]


def migrate(connection: Connection) -> None:
    """Within the caller's transaction; tables of SQLite are rebuilt where it cannot alter them."""
    context.configure(connection=connection, target_metadata=Table.metadata, render_as_batch=True)
    context.run_migrations()


# Whoever imports it without Alembic around it finds no config there, and nothing to do.
if hasattr(context, "config"):
    migrate(context.config.attributes["connection"])
