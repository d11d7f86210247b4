"""The schema, as numbered SQL files that are applied in order, each in one transaction.

They are written in what SQLite and PostgreSQL both speak; `{clustered}` is where a driver may ask for a table that is
stored in the order of its primary key.
"""
