"""Readers of tables: workbooks, SQLite, Parquet. Each sheet or table becomes a document of kind `csv`."""
