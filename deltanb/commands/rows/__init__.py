"""Commands that write and change rows."""
