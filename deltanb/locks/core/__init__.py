"""Locks and nested scopes of names: lock managers and their transactions, which know no table."""
