"""Row-level concurrency: how closely two transactions on the same files are told apart.

What lives here: the levels, and what each looks at.
What it does not know: how statistics, values or vectors are compared.
"""

from __future__ import annotations

LOOKS = {
    "statistics": "an added file passes if its statistics exclude every row that was read",
    "values": "an added file passes if none of its rows was read; the file is opened",
    "vectors": "a file of which both took rows by deletion vectors passes if they are different rows, and "
    "the later one read none that the winner took; the file is opened where it read more than it took",
}
"""What may let a commit pass where partitions do not."""
ROW_LEVELS: dict[str, frozenset[str]] = {
    "off": frozenset(),
    "statistics": frozenset({"statistics"}),
    "values": frozenset({"statistics", "values"}),
    "vectors": frozenset({"vectors"}),
    "all": frozenset(LOOKS),
}
"""The levels -> which of :data:`LOOKS` each takes."""


def as_markdown() -> str:
    """The levels as the documentation prints them.

    >>> print(as_markdown().splitlines()[2])
    | `off` | no closer look |
    """
    lines = ["| `row_level` | what lets a commit pass |", "|---|---|"]
    for level, looks in ROW_LEVELS.items():
        meaning = "; ".join(LOOKS[one] for one in LOOKS if one in looks)
        lines.append(f"| `{level}` | {meaning or 'no closer look'} |")
    return "\n".join(lines) + "\n"
