"""The commands on a table, each of them one transaction.

What lives here: defining, reading, writing and maintaining tables. A command plans on a snapshot, has its
rows written, commits, and removes its files if the commit is refused.
What it does not know: how commits, conflicts, files and predicates work.
"""
