"""A catalog in a database: its tables and history, whose a place is, and what moves together."""
