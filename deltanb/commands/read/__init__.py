"""Commands that read more than rows: changes, differences, details."""
