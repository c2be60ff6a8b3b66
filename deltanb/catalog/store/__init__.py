"""A catalog in a database: its tables, history, folders and joint commits."""
