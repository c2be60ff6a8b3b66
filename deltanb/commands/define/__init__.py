"""Commands that create a table, or change its definition."""
