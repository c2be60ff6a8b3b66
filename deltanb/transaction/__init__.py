"""The optimistic transaction: what was read, what to write, and the commit.

What lives here: the read registries, the checks before a commit, the commit algorithm as one generator
(:mod:`~deltanb.transaction.commit`), the ordered table of conflict rules
(:mod:`~deltanb.transaction.conflict_rules`), and the hooks that follow a commit.
What it does not know: engines, data files' rows, notebooks.
"""
