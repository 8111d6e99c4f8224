"""What alembic runs the steps with: the connection it is given, in the transaction that is open on it."""

from __future__ import annotations

from alembic import context

from rlm.journal.tables import VERSION_TABLE, metadata

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=metadata, version_table=VERSION_TABLE)
context.run_migrations()
