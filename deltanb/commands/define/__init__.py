"""Commands that make a table, or change what it is."""
