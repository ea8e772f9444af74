"""WHERE TOKENS REST: one SQLite file, its schema, recorder and reader."""
