"""Commands: what people do to a table, each one transaction from reading to commit.

What lives here: CREATE, WRITE and DESCRIBE DETAIL. A command plans on a snapshot, has its rows written,
commits, and removes its files when the commit is refused.
What it does not know: how commits, conflicts, files and predicates work.
"""
