"""Bisect: the first version, or instant of several tables, at which a statement about the data stops holding.

What lives here: :func:`bisect`, which brings together places, statement and search.
What it does not know: what a place is (``places``), how places are chosen (``search``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from deltanb.errors import (
    DataFileNotFound,
    DeltaError,
    InvalidArgument,
    InvalidPredicate,
    InvalidQuery,
    InvalidTable,
    UnsupportedPredicate,
    VersionNotFound,
)
from deltanb.observe.bisect.bisection import BEFORE, Bisection, Trial
from deltanb.observe.bisect.invariants import Invariant, Watch, invariant_of, truth
from deltanb.observe.bisect.places import Moment, Place, Places, Versions, places_of
from deltanb.observe.bisect.raced import raced_at
from deltanb.observe.bisect.search import MAX_SILENT, Search
from deltanb.text import formatting as units
from deltanb.text.progress import progress
from deltanb.text.spellings import answer_wrong_arguments

if TYPE_CHECKING:
    from deltanb.log.history import HistoryEntry
    from deltanb.observe.meetings import Meeting
    from deltanb.sql.conditions import Where

METHODS = {
    "halves": "about log2(n) reads, for a statement that stops holding once",
    "linear": "every version is read, for a statement that comes and goes",
}
"""How places are searched."""

MAX_CANDIDATES = 1_000  # places of a range that are listed; first and last say the rest
MAX_LISTED = 4  # places of a note that are not in a row
MAX_REASON = 200  # characters of an error
_UNREADABLE = (VersionNotFound, DataFileNotFound, InvalidTable)
_NOT_UNDERSTOOD = (InvalidPredicate, UnsupportedPredicate, InvalidQuery)


@answer_wrong_arguments()
def bisect(
    tables: Any, invariant: Callable[[Any], Any] | Where, start: Moment | None = None,
    end: Moment | None = None, *, method: str = "halves", storage_options: Mapping[str, Any] | None = None,
) -> Bisection:
    """Find the first version at which a statement about the data stops holding, and who committed it.

    Versions at which the statement raises, returns None or cannot be read count as neither good nor bad; if
    such lie between the last good and the first bad one, the answer is a range (``.candidates``). One that
    does not hold at the first version that can tell broke there or before, and no commit is named, unless the
    table begins with that version. With ``halves``, a statement that changes several times gives one of its
    changes.

    Args:
        tables: a table or its path, several (a list, or a mapping of names to tables), or a catalog. Tables
            of one catalog are seen after one of its transactions, others as of the time of a commit.
        invariant: a function of the table at a version (of a mapping of names to tables; of a
            :class:`~deltanb.catalog.snapshot.CatalogSnapshot`) that returns a truth value; a condition in SQL
            that every row satisfies, as of a CHECK constraint; or a query in DuckDB's SQL with one value. It
            may only read; what it writes is noted in ``.notes``.
        start, end: the first and the last version, or times; for several tables times; for a catalog numbers
            of transactions, or times. By default all that can be read.
        method: ``"halves"`` or ``"linear"``, see :data:`METHODS`. ``.flips`` lists the changes.
        storage_options: access to a bucket for tables given by path, as in :func:`deltanb.open`.

    Returns:
        A :class:`~deltanb.observe.bisect.bisection.Bisection`.

    Raises:
        InvalidArgument: no tables, no statement, another method, or bounds that are none.
        InvalidPredicate, UnsupportedPredicate, InvalidQuery: SQL that is understood at no version.
        TableNotFound, VersionNotFound: there is no such table or version.

    >>> import deltanb as dn
    >>> table = dn.create("stock", {"item": ["bolt", "nut"], "pieces": [40, 10]})
    >>> for _ in range(6):
    ...     _ = table.update({"pieces": "pieces - 3"}, where="item = 'nut'")
    >>> bisection = dn.bisect(table, "pieces >= 0")
    >>> bisection.first_bad, bisection.last_good, bisection.commit.operation, bisection.reads
    (4, 3, 'UPDATE', 4)
    >>> dn.bisect(table, lambda past: past.count() == 2).verdict
    'holds'
    """
    if method not in METHODS:
        raise InvalidArgument(f"method={method!r} is not one of {', '.join(METHODS)}")
    places = places_of(tables, start, end, storage_options)
    statement = invariant_of(invariant, isinstance(places, Versions))
    return _Bisect(places, statement, method).run()


class _Bisect:
    """One bisection under way."""

    def __init__(self, places: Places, statement: Invariant, method: str) -> None:
        self.places, self.statement, self.method = places, statement, method
        self.search = Search(len(places), self._ask)
        self.watch = Watch(places)
        self.trials: dict[int, Trial] = {}
        self.reads = 0
        self.gaps: dict[int, str] | None = None
        self.errors: list[Exception] = []
        self.unknown: list[str] = []

    def run(self) -> Bisection:
        """Search, and tell what came of it."""
        total = len(self.places) if self.method == "linear" else None
        with progress("bisect: versions", total) as self.seen:
            if self.method == "linear":
                self.search.in_order()
            else:
                self.search.by_halves()
        answers = [answer for answer in self.search.answers.values() if answer is not None]
        if not answers:
            self._refuse_sql()
        return self._result()

    def _refuse_sql(self) -> None:
        """SQL that no version understands, of those that can be read, is a mistake of who wrote it."""
        errors = [error for error in self.errors if not isinstance(error, _UNREADABLE)]
        if errors and all(isinstance(error, _NOT_UNDERSTOOD) for error in errors):
            raise errors[-1]

    def _ask(self, number: int) -> bool | None:
        place = self.places.label(number)
        self.reads += 1
        try:
            holds = truth(self.statement.ask(self.places.view(number)))
            self.trials[number] = Trial(place, holds)
            return holds
        except Exception as error:
            self.errors.append(error)
            self.trials[number] = Trial(place, None, _reason(error))
            if isinstance(error, _UNREADABLE):
                self._leave_out_unreadable()
            return None
        finally:
            self.watch.look(_name(place))
            self.seen()

    def _leave_out_unreadable(self) -> None:
        """Once a version cannot be read, those that cannot are found in the log and not asked."""
        if self.gaps is not None:
            return
        try:
            self.gaps = self.places.unreadable()
        except (DeltaError, OSError):
            self.gaps = {}
        for number, reason in self.gaps.items():
            self.search.answers.setdefault(number, None)
            self.trials.setdefault(number, Trial(self.places.label(number), None, reason))

    def _result(self) -> Bisection:
        search, places = self.search, self.places
        candidates = [places.label(number) for number in search.candidates[:MAX_CANDIDATES]]
        first_bad, last_good = (None if at is None else places.label(at) for at in (search.bad, search.good))
        verdict = self._verdict()
        commits = {} if search.bad is None or verdict == BEFORE else self._commits(search.bad)
        meetings = self._meetings(commits)
        start, end = places.label(0), places.label(len(places) - 1)
        return Bisection(
            places.names, self.statement.text, self.method, start, end, len(places), verdict,
            first_bad, last_good, tuple(candidates), commits, meetings, self.reads,
            tuple(self.trials[number] for number in sorted(self.trials)),
            tuple((places.label(number), holds) for number, holds in search.flips()),
            tuple(self._notes(bool(commits) or verdict == BEFORE)))

    def _verdict(self) -> str:
        if self.search.bad is None:
            return "unknown" if self.search.good is None else "holds"
        if self.search.good is None:
            is_start = self.search.bad == 0 and self.places.begin_with_creation
            return "broken from the start" if is_start else BEFORE
        return "stopped" if len(self.search.candidates) == 1 else "in a range"

    def _commits(self, number: int) -> dict[str, HistoryEntry]:
        try:
            return self.places.commits(number)
        except (DeltaError, OSError):
            return {}

    def _meetings(self, commits: Mapping[str, HistoryEntry]) -> dict[str, tuple[Meeting, ...]]:
        meetings = {}
        for name, entry in commits.items():
            log = self.places.log_of(name)
            if log is None:
                continue
            try:
                met, unknown = raced_at(log, entry)
            except (DeltaError, OSError) as error:
                self.unknown.append(f"who raced v{entry.version} of {name} cannot be determined: "
                                    f"{_reason(error)}")
                continue
            self.unknown += unknown
            if met:
                meetings[name] = met
        return meetings

    def _notes(self, is_commit_known: bool) -> list[str]:
        notes = [*self.places.notes, *self.watch.notes()]
        answered = [number for number, trial in self.trials.items() if trial.holds is not None]
        before = [number for number in sorted(self.trials) if answered and number < min(answered)]
        behind = [number for number in sorted(self.trials) if answered and number > max(answered)]
        if before:
            notes.append(f"{self._list(before)} cannot tell: {self.trials[before[-1]].reason}")
        if behind:
            notes.append(f"{self._list(behind)} cannot tell: {self.trials[behind[0]].reason}")
        if self.search.is_cut_off:
            notes.append(f"{MAX_SILENT} in a row could not tell, so not all others were asked")
        if self.method == "halves" and self.search.bad is None and len(self.trials) < len(self.places):
            asked, total = units.number(self.reads), units.number(len(self.places))
            notes.append(f"{asked} of {total} were asked; method='linear' asks all")
        if self.search.bad is not None and not is_commit_known:
            notes.append(f"the commit of {_name(self.places.label(self.search.bad))} is no longer in the log")
        return notes + self.unknown

    def _list(self, numbers: list[int]) -> str:
        """Places in few words: one, the ends of those in a row, the only ones, or the ends of many."""
        names = [_name(self.places.label(number)) for number in (numbers[0], numbers[-1])]
        if len(numbers) == 1:
            return names[0]
        if numbers[-1] - numbers[0] == len(numbers) - 1:
            return " to ".join(names)
        if len(numbers) <= MAX_LISTED:
            *some, last = [_name(self.places.label(number)) for number in numbers]
            return f"{', '.join(some)} and {last}"
        return f"{units.number(len(numbers))} that were asked from {' to '.join(names)}"


def _name(place: Place) -> str:
    return f"v{place}" if isinstance(place, int) else str(place)


def _reason(error: Exception) -> str:
    """An error as one line."""
    line = next(iter(str(error).splitlines()), "")
    name = "" if isinstance(error, DeltaError) else f"{type(error).__name__}: "
    return units.fit(units.clean(f"{name}{line}"), MAX_REASON)
