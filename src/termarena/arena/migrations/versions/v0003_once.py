"""Contenders are known once for each owner, and may have a key; battles may be cancelled; runs are counted by rank."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

__all__ = ["down_revision", "downgrade", "revision", "upgrade"]

revision = "0003"
down_revision: str | None = "0002"

WHO = ("url", "role", "owner")


def upgrade() -> None:
    """Add them; of contenders that were registered twice the first stays, with the battles of all."""
    op.add_column("contenders", sa.Column("sealed_key", sa.Text(), nullable=True))
    op.add_column("battles", sa.Column("cancelled_by", sa.Text(), nullable=True))
    op.create_index("runs_by_rank", "runs", ["dataset_id", "is_ranked", "state"], unique=False)
    _join_doubles()
    op.create_index("contenders_once", "contenders", list(WHO), unique=True)


def _join_doubles() -> None:
    text, number = sa.Text(), sa.Integer()
    contenders = sa.table("contenders", sa.column("id", number), *(sa.column(name, text) for name in WHO))
    battles = sa.table("battles", sa.column("white_id", number), sa.column("green_id", number))
    connection, first = op.get_bind(), dict[tuple[str, ...], int]()
    for row in connection.execute(sa.select(contenders).order_by(contenders.c.id)).all():
        kept = first.setdefault((row.url, row.role, row.owner), row.id)
        if kept != row.id:
            for party in (battles.c.white_id, battles.c.green_id):
                connection.execute(sa.update(battles).where(party == row.id).values({party: kept}))
            connection.execute(sa.delete(contenders).where(contenders.c.id == row.id))


def downgrade() -> None:
    """Take them away."""
    op.drop_index("contenders_once", table_name="contenders")
    op.drop_index("runs_by_rank", table_name="runs")
    # Not as a batch: SQLite would make the tables anew, and other rows refer to theirs.
    op.drop_column("battles", "cancelled_by")
    op.drop_column("contenders", "sealed_key")
