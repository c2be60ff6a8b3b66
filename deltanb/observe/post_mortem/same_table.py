"""Whether a text, or an exception, is about this table: what it says of the winner, against the log.

What lives here: :func:`contradiction`, of a winner's commit, and :func:`other_name`, of the table's name.
What it does not know: where the winner's version comes from, and what follows if it is another table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from deltanb.observe.post_mortem.evidence import Job
from deltanb.text import formatting as units
from deltanb.text.safe_text import last_part
from deltanb.transaction.steps import Winner

NEEDED: Mapping[str, tuple[Callable[[Winner], Any], str]] = {
    "append": (lambda winner: winner.adds, "adds no file"),
    "delete / read": (lambda winner: winner.removes, "removes no file"),
    "delete / delete": (lambda winner: winner.removes, "removes no file"),
    "metadata": (lambda winner: winner.metadata, "leaves the metadata as it is"),
}
"""What a winner has that a rule failed at, and what a commit without it does, by the names of rules."""
_NAMED_BY_ID = re.compile(r"[0-9a-f_-]{8,}|")
"""Folders whose names a catalog made up say nothing about the names of their tables."""


def contradiction(job: Job, winner: Winner) -> str | None:
    """Why this commit cannot be the winner that the text or the exception is about; None if it can be."""
    info = winner.commit_info
    if job.conflict is not None:
        ours = job.conflict.winner.txn_id
        return None if info.txn_id == ours else f"its txnId is {info.txn_id}, and the exception has {ours}"
    if info.txn_id and info.txn_id == job.parsed.facts.get("winner_txn"):
        return None
    operation = job.parsed.facts.get("winner_operation")
    if isinstance(operation, str) and isinstance(info.operation, str) and info.operation \
            and _folded(operation) != _folded(info.operation):
        return f"its operation is {info.operation}, and the text has {operation}"
    needed = [NEEDED.get(rule) for rule in job.rules]
    if winner.version == 0 and needed and all(one is not None for one in needed):
        return f"it created the table, which cannot fail the rule {' or '.join(job.rules)!r}"
    missing = [one[1] for one in needed if one is not None and not one[0](winner)]
    if needed and len(missing) == len(needed):
        return f"it {missing[0]}, so that it cannot fail the rule {' or '.join(job.rules)!r}"
    return None


def other_name(text: str | None, path: str, names: Iterable[str | None]) -> str | None:
    """The name that a text has for the table, where the table has others; None if it may be this one.

    ``path`` is the table's, ``names`` what else it is called. A folder that is named by an id may be of any
    table of a catalog.

    >>> other_name("shop.geese", "s3://lake/ducks", [None])
    'geese'
    >>> other_name("shop.ducks", "s3://lake/ducks", []), other_name("geese", "/lake/3f2a-1b77", [])
    (None, None)
    >>> other_name("delta.`s3://lake/ducks/`", "/mnt/lake/ducks", [])
    """
    if not text:
        return None
    inside = re.fullmatch(r"(?:delta\.)?`(.*)`", text)
    name = last_part(inside[1] if inside is not None and "/" in inside[1] else text)
    folder = last_part(path)
    if "/" not in text:
        name = name.rpartition(".")[2].strip("`")
        if _NAMED_BY_ID.fullmatch(folder.lower()) or _folded(name) in _folded(folder):
            return None
    known = {_folded(one) for one in (folder, *names) if one}
    known |= {one.rpartition(".")[2] for one in known}
    return None if not name or _folded(name) in known else name


def as_question(what: str) -> str:
    """The remark that something does not fit."""
    return f"{units.shortened(what, 300)}: is it the same table?"


def _folded(name: str) -> str:
    return " ".join(name.casefold().split())
