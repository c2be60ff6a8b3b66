"""The verdict on one transaction under an isolation level: the rules, asked of one winner after another.

What lives here: :class:`LevelVerdict`, how it is reached, and how many winners are asked about.
What it does not know: which commits of a history are asked about, and why (``what_if``, ``meetings``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from deltanb.errors import DeltaError, InvalidArgument, VersionNotFound
from deltanb.observe.recorded import Recorder
from deltanb.text.safe_text import shown
from deltanb.transaction.conflict_rules import RULES, Rule, check
from deltanb.transaction.conflicts import Conflict
from deltanb.transaction.current import (
    SERIALIZABLE,
    SNAPSHOT_ISOLATION,
    WRITE_SERIALIZABLE,
    CurrentTransaction,
)
from deltanb.transaction.prepare import isolation_of
from deltanb.transaction.row_levels import level_passed_at

if TYPE_CHECKING:
    from deltanb.observe.finer_rules import FinerRules

MAX_CHECKS = 200_000
"""Commits that commits are checked against, all in all: of those that met more, the nearest are."""
MIN_WINDOW = 20  # the nearest commits that each commit is checked against in any case
LEVELS = (SERIALIZABLE, WRITE_SERIALIZABLE, SNAPSHOT_ISOLATION)
"""The isolation levels, the strictest first."""


@dataclass(frozen=True)
class LevelVerdict:
    """The verdict on one commit under one level.

    ``isolation`` is the level it is checked under: SnapshotIsolation if only the layout changes, whatever
    the table's level. ``rule`` and ``version`` say which rule would have failed it at which winner; its
    ``conflict`` has the rest (None if the rule raises another ``error``). ``unknown`` is the reason if the
    log does not have the answer.
    """

    isolation: str = ""
    rule: str = ""
    version: int | None = None
    conflict: Conflict | None = None
    error: DeltaError | None = None
    unknown: str = ""
    doubts: tuple[str, ...] = ()
    """Why it may have passed although a rule fails it: what a closer look would need is not known."""

    @property
    def passed(self) -> bool:
        """Whether it would have committed."""
        return not self.rule and not self.unknown


def window_limit(windows: Iterable[int]) -> int:
    """How many of the nearest winners each commit is checked against, from how many there are of each.

    >>> window_limit([3, 500]), window_limit([300_000, 300_000])
    (200000, 100000)
    """
    sizes = [size for size in windows if size > 0]
    return MAX_CHECKS if sum(sizes) <= MAX_CHECKS else max(MIN_WINDOW, MAX_CHECKS // len(sizes))


def reason_of(error: DeltaError | OSError) -> str:
    """Why a recorded commit cannot be judged, in one line."""
    if isinstance(error, VersionNotFound):
        return "the log before it was cleaned up"
    return getattr(error, "message", str(error)).split("\n", 1)[0]


def finer_of(
    recorder: Recorder, current: CurrentTransaction, columns: Sequence[str] = ()
) -> FinerRules | None:
    """The rules by which a restored commit passed others at a row level; None if it says nothing of it."""
    level = level_passed_at(current.commit_info)
    if level == "off":
        return None
    from deltanb.observe.finer_rules import FinerRules  # it reads rows

    return FinerRules(recorder, level, columns)


def verdicts_of(
    recorder: Recorder, current: CurrentTransaction, winners: Sequence[int],
    levels: Sequence[str | None], rules: Sequence[Rule], finer: FinerRules | None = None,
) -> tuple[LevelVerdict, ...]:
    """The verdict on a restored transaction under each level, None for its own, against winners in order;
    ``finer`` are those that the rules are of. A commit that passed others at a row level is looked at as
    closely.

    Raises:
        DeltaError: a winner cannot be read.
    """
    if finer is None or not finer.looks:
        own = finer_of(recorder, current, () if finer is None else finer.columns)
        finer, rules = (finer, rules) if own is None else (own, own.of(rules))
    isolations = [current.isolation if level is None else _isolation_under(current, level)
                  for level in levels]
    by_isolation: dict[str, LevelVerdict] = {}
    has_passed = False
    for isolation in sorted(set(isolations), key=LEVELS.index):
        if has_passed and all(rule in RULES for rule in rules):  # a weaker level only leaves rules out
            by_isolation[isolation] = LevelVerdict(isolation)
        else:
            if finer is not None:
                finer.forget()
            verdict = _verdict_under(recorder, current, isolation, winners, rules)
            doubts = () if verdict.passed or finer is None else tuple(finer.doubts)
            by_isolation[isolation] = replace(verdict, doubts=doubts) if doubts else verdict
        has_passed = by_isolation[isolation].passed
    return tuple(by_isolation[isolation] for isolation in isolations)


def require_isolation(level: Any) -> str:
    """An isolation level that was given as an argument.

    Raises:
        InvalidArgument: it is none.
    """
    if isinstance(level, str) and level in LEVELS:
        return level
    raise InvalidArgument(f"isolation={shown(level)} is not one of {', '.join(LEVELS)}")


def _isolation_under(current: CurrentTransaction, level: str) -> str:
    """The level this commit would have had on a table of that level."""
    metadata = current.metadata.replace(
        configuration={**current.metadata.configuration, "delta.isolationLevel": level})
    return isolation_of(current.actions, metadata, current.operation)


def _verdict_under(
    recorder: Recorder, current: CurrentTransaction, isolation: str, winners: Sequence[int],
    rules: Sequence[Rule],
) -> LevelVerdict:
    current = current.replace(isolation=isolation)
    for version in winners:
        verdict = check(current, recorder.commit(version), rules)
        if verdict.error is not None:
            rule = next(one.name for one in verdict.checks if one.state == "failed")
            return LevelVerdict(isolation, rule, version, verdict.conflict, verdict.error)
        current = verdict.transaction
    return LevelVerdict(isolation)
