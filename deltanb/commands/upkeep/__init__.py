"""Commands that keep a table in shape: the rows stay the same."""
