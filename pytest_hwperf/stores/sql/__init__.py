"""Baselines and the memory of a team in a database: SQLite in one file, PostgreSQL for many writers."""
