"""Locks and nested scopes of names: lock managers and their transactions.

What lives here: who gets a lock and when, how a transaction's scopes nest, and how they end.
What it does not know: tables (``locks/tables``), other processes.
"""
