"""Who races whom, who loses, and what it costs: the meetings of a history, counted.

What lives here: :class:`ConflictMap`, which counts meetings by writers, by operations and by the hour of the
day, and :func:`conflict_map`, which makes one.
What it does not know: which transactions met (``meetings``), how the map is drawn (the views).
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from deltanb.errors import InvalidArgument, MissingDependency
from deltanb.observe.meetings import Meeting, Meetings, meet
from deltanb.text.display import Charted
from deltanb.text.safe_text import shown
from deltanb.text.spellings import answer_wrong_arguments

if TYPE_CHECKING:
    import pandas
    import pyarrow as pa

    from deltanb.log.history import History
    from deltanb.observe.verify.report import BlindSpot

BY: dict[str, Callable[[Meeting], tuple[Any, ...]]] = {
    "writer": lambda one: (one.winner.writer, one.loser.writer),
    "operation": lambda one: (one.winner.operation, one.loser.operation),
    "hour": lambda one: (one.hour,),
}
"""What meetings are counted by -> how a meeting is named by it."""
_NAMES = {"writer": ("winner", "loser"), "operation": ("winner", "loser"), "hour": ("hour",)}


@dataclass(frozen=True, slots=True)
class Tally:
    """Meetings of one kind, counted.

    ``names`` are winner and loser (writers or operations), or the hour. ``races`` counts the meetings,
    ``lost`` those at which the later one failed, ``would_fail`` those at which it landed although a rule ends
    it there, ``unknown`` those of which that is not known. ``rule`` is the rule that ended most of them.
    ``wasted`` counts the bytes that the failed ones had written, as far as they are known; ``unmeasured``
    counts those of which they are not.
    """

    names: tuple[Any, ...]
    races: int
    lost: int
    would_fail: int
    unknown: int
    wasted: int
    unmeasured: int
    rule: str

    @property
    def winner(self) -> Any:
        """Who landed first, or the hour."""
        return self.names[0]

    @property
    def loser(self) -> Any:
        """Who came later, or the hour."""
        return self.names[-1]

    @classmethod
    def of(cls, names: tuple[Any, ...], meetings: Iterable[Meeting]) -> Tally:
        """Of the meetings with these names."""
        outcomes, rules = Counter[str](), Counter[str]()
        wasted = unmeasured = 0
        for one in meetings:
            outcomes[one.outcome] += 1
            if one.rule:
                rules[one.rule] += 1
            if one.is_lost:
                wasted += one.wasted or 0
                unmeasured += one.wasted is None
        rule = min(rules, key=lambda name: (-rules[name], name), default="")
        return cls(names, outcomes.total(), outcomes["failed"], outcomes["would fail"], outcomes["unknown"],
                   wasted, unmeasured, rule)


@answer_wrong_arguments()
@dataclass(frozen=True, repr=False)
class ConflictMap(Charted):
    """Who races whom in a table, who loses, and what it costs.

    ``meetings`` are the pairs of transactions that ran at the same time; :meth:`by` counts them. The picture
    has a map of writers, one of operations, and the hours of the day, with tables beside them. ``versions``
    are the first and the last commit looked at.

    Equal maps are of equal meetings.

    >>> import deltanb as dn
    >>> from deltanb.testing import MemoryStore
    >>> conflicts = dn.create(MemoryStore(), {"id": [1]}).history().conflicts()
    >>> conflicts.versions, conflicts.total.races
    ((0, 0), 0)
    """

    meetings: Meetings
    versions: tuple[int, int] = (0, 0)

    @property
    def table(self) -> str:
        """The table's name.

        >>> import deltanb as dn
        >>> dn.create("mapped", {"id": [1]}).history().conflicts().table
        'mapped'
        """
        return self.meetings.table

    @property
    def zone(self) -> str:
        """The time zone of the hours.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> dn.create(MemoryStore(), {"id": [1]}).history().conflicts(zone="Europe/Athens").zone
        'Europe/Athens'
        """
        return self.meetings.zone

    @property
    def blind_spots(self) -> tuple[BlindSpot, ...]:
        """What is not known, and of which versions.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> conflicts = dn.create(MemoryStore(), {"id": [1]}).history().conflicts()
        >>> [spot.kind for spot in conflicts.blind_spots]  # other processes keep no journal of their failures
        ['journal']
        """
        return self.meetings.blind_spots

    @property
    def lost(self) -> tuple[Meeting, ...]:
        """The meetings at which a transaction failed, the newest last.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> dn.create(MemoryStore(), {"id": [1]}).history().conflicts().lost
        ()
        """
        return tuple(one for one in self.meetings if one.is_lost)

    @cached_property
    def total(self) -> Tally:
        """All meetings, counted.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [1]})
        >>> one, other = table.start_transaction(), table.start_transaction()
        >>> [txn.commit(txn.write_files({"id": [2]}), "WRITE") for txn in (one, other)]
        [1, 2]
        >>> table.history().conflicts().total.races
        1
        """
        return Tally.of((), self.meetings)

    def by(self, what: str = "writer") -> tuple[Tally, ...]:
        """The meetings counted, those that lost most first; hours in their order.

        Args:
            what: ``writer``, ``operation`` or ``hour``.

        Raises:
            InvalidArgument: something else.

        >>> import deltanb as dn
        >>> table = dn.create("herons", {"name": ["Ida"]})
        >>> txn = table.start_transaction()
        >>> table.append({"name": ["Ibis"]})
        <CommandResult WRITE, ✓ committed v1, in this process>
        >>> txn.write_files({"name": ["Egret"]})
        [...]
        >>> txn.commit(txn.written, "WRITE")
        2
        >>> [(one.winner, one.loser, one.races) for one in table.history().conflicts().by("operation")]
        [('WRITE', 'WRITE', 1)]
        """
        if not isinstance(what, str) or what not in BY:
            raise InvalidArgument(f"by={shown(what)} is not one of {', '.join(BY)}")
        if what not in self._tallies:
            groups: dict[tuple[Any, ...], list[Meeting]] = {}
            for one in self.meetings:
                groups.setdefault(BY[what](one), []).append(one)
            tallies = [Tally.of(names, some) for names, some in groups.items()]
            order = _by_hour if what == "hour" else _by_losses
            self._tallies[what] = tuple(sorted(tallies, key=order))
        return self._tallies[what]

    @cached_property
    def _tallies(self) -> dict[str, tuple[Tally, ...]]:
        return {}

    def to_arrow(self, by: str = "writer") -> pa.Table:
        """The counts as a table: a row for each pair of writers or of operations, or for each hour.

        Columns: ``winner`` and ``loser``, or ``hour`` (null where a time is not recorded); ``races``,
        ``lost``, ``would_fail``, ``unknown``; ``wasted`` in bytes, null where no loss was measured; ``rule``,
        null where none ended any.

        Raises:
            InvalidArgument: ``by`` is none of ``writer``, ``operation`` and ``hour``.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> conflicts = dn.create(MemoryStore(), {"id": [1]}).history().conflicts()
        >>> conflicts.to_arrow("hour").column_names[:3]
        ['hour', 'races', 'lost']
        """
        import pyarrow as pa

        tallies = self.by(by)
        kind = pa.int64() if by == "hour" else pa.string()
        columns = {name: pa.array([one.names[at] for one in tallies], kind)
                   for at, name in enumerate(_NAMES[by])}
        for name in ("races", "lost", "would_fail", "unknown"):
            columns[name] = pa.array([getattr(one, name) for one in tallies], pa.int64())
        columns["wasted"] = pa.array(
            [None if one.lost and one.unmeasured == one.lost else one.wasted for one in tallies], pa.int64())
        columns["rule"] = pa.array([one.rule or None for one in tallies], pa.string())
        return pa.table(columns)

    def to_pandas(self, by: str = "writer") -> pandas.DataFrame:
        """The counts as a DataFrame, with the columns of :meth:`to_arrow`.

        Raises:
            InvalidArgument: ``by`` is none of ``writer``, ``operation`` and ``hour``.
            MissingDependency: pandas is not installed.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> list(dn.create(MemoryStore(), {"id": [1]}).history().conflicts().to_pandas().columns[:2])
        ['winner', 'loser']
        """
        try:
            import pandas
        except ImportError:
            raise MissingDependency("conflicts().to_pandas needs pandas: pip install 'deltanb[notebook]'. "
                                    "to_arrow() has the same table without it", extra="notebook") from None
        frame: pandas.DataFrame = self.to_arrow(by).to_pandas(types_mapper={
            pa_type: pandas.Int64Dtype() for pa_type in _integers()}.get)
        return frame


def _integers() -> tuple[Any, ...]:
    import pyarrow as pa

    return (pa.int64(),)


def _by_losses(one: Tally) -> tuple[Any, ...]:
    return (-one.lost, -one.would_fail, -one.races, one.names)


def _by_hour(one: Tally) -> tuple[Any, ...]:
    return (one.winner is None, one.winner or 0)


def conflict_map(
    history: History, isolation: str | None = None, zone: str | dt.tzinfo = "UTC"
) -> ConflictMap:
    """Who races whom in a history, who loses, and what it costs.

    Each commit met those that landed between the version it read and its own. Whether it would have failed at
    one of them is what the conflict rules answer. Who did fail is known from the journal of this process, and
    from those of others where the option ``journal`` keeps them.

    Args:
        isolation: the level at which the rules are asked, in place of each commit's own.
        zone: the time zone of the hours, as a name, an offset or a ``tzinfo``.

    Raises:
        InvalidArgument: a level or a time zone that does not exist, or a history made by hand.
    """
    versions = [entry.version for entry in history]
    conflicts = ConflictMap(
        meet(history, isolation, zone), (min(versions, default=0), max(versions, default=0)))
    _ = conflicts.total, *map(conflicts.by, BY)  # counted now, so that looking at it takes no time
    return conflicts
