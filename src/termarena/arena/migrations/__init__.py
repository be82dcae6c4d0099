"""The history of the tables, one file per change, as Alembic reads it."""
