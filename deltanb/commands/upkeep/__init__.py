"""Maintenance commands, which do not change rows."""
