"""What a bisection gives: where a statement stopped holding, who committed that, and who raced there.

What lives here: the values.
What it does not know: how they are come by (``bisect``), how they are drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from deltanb.observe.bisect.places import Place
from deltanb.text.display import Displayable

if TYPE_CHECKING:
    from deltanb.log.history import HistoryEntry
    from deltanb.observe.meetings import Meeting

VERDICTS = {
    "stopped": "it held, and stopped holding",
    "in a range": "it stopped holding at one of several, some of which cannot tell",
    "broken from the start": "it does not hold at the first of all, with which the history begins",
    "broken at or before": "it does not hold at the first asked that can tell, and broke there or before",
    "holds": "it holds at all that were asked",
    "unknown": "none that was asked could tell",
}
"""How a bisection ends, and what that means."""
BEFORE = "broken at or before"


@dataclass(frozen=True)
class Trial:
    """One place where the statement was asked, or could not be.

    ``at`` is a version, or an instant of several tables. ``holds`` is None where the place counts as neither
    good nor bad; ``reason`` says why: the statement raised, or the place cannot be read.
    """

    at: Place
    holds: bool | None
    reason: str = ""


@dataclass(frozen=True, repr=False)
class Bisection(Displayable):
    """Where a statement about data stops holding; see :func:`deltanb.bisect`.

    ``first_bad`` and ``last_good`` are versions, or instants of several tables; None where there is none.
    ``verdict`` is one of :data:`VERDICTS`. ``candidates`` are all places from ``start`` on that may be the
    first bad one: one, unless some in between are ``skipped``. ``commits`` made ``first_bad``, by table, and
    are empty where it may have been broken before; :attr:`commit` is that of one table. ``reads`` counts how
    often the statement was asked. ``flips`` are the places where it changed, of those asked: (place, whether
    it holds from there on). ``meetings`` are the pairs of commits that ran at the same time, one of them
    among ``commits``, by table. ``notes`` say what limits the answer.

    >>> import deltanb as dn
    >>> from deltanb.testing import MemoryStore
    >>> table = dn.create(MemoryStore(), {"id": [1]})
    >>> for number in (2, -3, 4):
    ...     _ = table.append({"id": [number]})
    >>> bisection = dn.bisect(table, "id > 0")
    >>> bisection.last_good, bisection.first_bad
    (1, 2)
    """

    tables: tuple[str, ...]
    invariant: str
    method: str
    start: Place
    end: Place
    num_places: int
    verdict: str
    first_bad: Place | None = None
    last_good: Place | None = None
    candidates: tuple[Place, ...] = ()
    commits: Mapping[str, HistoryEntry] = field(default_factory=dict)
    meetings: Mapping[str, tuple[Meeting, ...]] = field(default_factory=dict)
    reads: int = 0
    trials: tuple[Trial, ...] = ()
    flips: tuple[tuple[Place, bool], ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def commit(self) -> HistoryEntry | None:
        """The commit that made :attr:`first_bad`; of a transaction of several tables, that of its first.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [1]})
        >>> _ = table.append({"id": [-2]}, user_metadata="night run")
        >>> dn.bisect(table, "id > 0").commit.user_metadata
        'night run'
        """
        return next(iter(self.commits.values()), None)

    @property
    def skipped(self) -> tuple[Trial, ...]:
        """The places that count as neither good nor bad, each with its reason.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [1]})
        >>> _ = table.append({"id": [-2]})
        >>> dn.bisect(table, "id > 0").skipped
        ()
        """
        return tuple(trial for trial in self.trials if trial.holds is None)

    @property
    def is_exact(self) -> bool:
        """Whether the first bad place is known.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [1]})
        >>> _ = table.append({"id": [-2]})
        >>> dn.bisect(table, "id > 0").is_exact
        True
        """
        return len(self.candidates) == 1 and self.verdict != BEFORE
