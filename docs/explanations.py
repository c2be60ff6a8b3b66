"""Parts of the explanations that are the code's: tables of rules, of steps, of lock modes.

What lives here: :data:`PARTS`, by page and name. ``pytest tests/docs/test_explanations.py --update-golden``
writes them into the pages, between ``<!-- name: … -->`` and ``<!-- end of name -->``.
What it does not know: how a part is compared with its page (``tests/pages.py``); the rules, whose table is
``RULES`` of ``deltanb/transaction/conflict_rules.py``.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable

from deltanb.locks.core import modes
from deltanb.transaction import conflict_rules, steps


def rules() -> str:
    """The conflict rules, in order."""
    return conflict_rules.as_markdown().rstrip()


def passing() -> str:
    """What each rule says where it finds nothing, and whether a closer look can take its finding back."""
    return table(
        ("rule", "a commit passes when", "rows may be looked at"),
        ((rule.name, rule.passed, "yes" if rule.looks_at_files else "") for rule in conflict_rules.RULES))


def commit_steps() -> str:
    """The steps of a commit, in the order of their module, with who answers."""
    kinds = [kind for kind in vars(steps).values() if inspect.isclass(kind) and issubclass(kind, steps.Step)
             and kind is not steps.Step]
    return table(("step", "what it is", "answered"), (
        (f"`{kind.__name__}`", first_sentence(kind), "yes" if kind.asks else "") for kind in kinds))


def compatible() -> str:
    """Which lock modes go together: rows are held, columns are asked for by another."""
    names = {mode: modes.MODE_NAMES[mode] for mode in (modes.SHARED, modes.UPGRADABLE, modes.EXCLUSIVE)}
    return table(("held ↓, asked →", *names.values()), (
        (f"**{name}**", *("together" if modes.COMPATIBLE[held, asked] else "waits" for asked in names))
        for held, name in names.items()))


def lock_modes() -> str:
    """How a transaction reads in each of its modes, from the enumeration's own table."""
    return from_docstring(modes.LockMode)


def first_sentence(thing: type) -> str:
    """The first sentence of a docstring as Markdown, in one line."""
    text = " ".join(inspect.cleandoc(thing.__doc__ or "").split("\n\n")[0].split())
    sentence = re.split(r"(?<=[a-z)`])[.](?:\s|$)", text)[0]
    return sentence.replace("``", "`").replace("|", "\\|")


def from_docstring(thing: type) -> str:
    """The table in a docstring, between lines of ``===``, as Markdown."""
    _, head, body, _ = re.split(r"^ *=[ =]+$\n?", inspect.cleandoc(thing.__doc__ or ""), flags=re.MULTILINE)
    ruler = re.search(r"^ *(=[ =]+)$", inspect.cleandoc(thing.__doc__ or ""), re.MULTILINE)
    assert ruler is not None
    spans = [match.span() for match in re.finditer("=+", ruler[1])]
    rows = [tuple(line[begin:None if end == spans[-1][1] else end].strip() for begin, end in spans)
            for line in (head + body).splitlines()]
    return table(rows[0], rows[1:])


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown.

    >>> print(table(["a", "b"], [["1", ""]]))
    | a | b |
    |---|---|
    | 1 |  |
    """
    head = list(head)
    lines = [head, ["---"] * len(head)]
    return "\n".join(
        ["| " + " | ".join(lines[0]) + " |", "|" + "|".join(lines[1]) + "|",
         *("| " + " | ".join(row) + " |" for row in rows)])


PARTS: dict[tuple[str, str], Callable[[], str]] = {
    ("conflict-rules", "rules"): rules,
    ("conflict-rules", "passing"): passing,
    ("life-of-a-commit", "steps"): commit_steps,
    ("locks", "compatible"): compatible,
    ("locks", "modes"): lock_modes,
}
"""(page, name of the part) -> what makes it."""
