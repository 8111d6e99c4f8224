"""Test the PostgreSQL server that the tests use."""

from __future__ import annotations

import psycopg


def test_a_test_has_an_empty_database_of_its_own(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        tables = connection.execute(
            "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'public'"
        ).fetchone()
        assert tables == (0,)
        assert connection.execute("SHOW server_encoding").fetchone() == ("UTF8",)
