"""Row-level concurrency: how closely two transactions on the same files are told apart.

What lives here: the levels, and what each looks at.
What it does not know: how statistics, values or vectors are compared.
"""

from __future__ import annotations

ROW_LEVELS: dict[str, frozenset[str]] = {
    "off": frozenset(),
    "statistics": frozenset({"statistics"}),
    "values": frozenset({"statistics", "values"}),
    "vectors": frozenset({"vectors"}),
    "all": frozenset({"statistics", "values", "vectors"}),
}
"""The levels -> what lets a commit pass where partitions do not: statistics of an added file that exclude
what was read; its rows, none of which was read; deletion vectors of both that take different rows."""
