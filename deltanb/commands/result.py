"""The result of a command: what it did, and how long its phases took.

What lives here: :class:`CommandResult`, :class:`Stopwatch`.
What it does not know: particular commands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from deltanb.options import options
from deltanb.text.display import Displayable
from deltanb.text.spellings import Spelt
from deltanb.transaction.operations import CHANGES_DATA, Operation


@dataclass(frozen=True, repr=False, eq=False)
class CommandResult(Displayable, Spelt, int, place="result"):
    """The result of a command that commits to a table.

    ``version`` is the committed version, None if nothing was committed; for an Iceberg table it is the id of
    the snapshot. The result is also that number: ``table.as_of(result)``, ``result == 3``, ``f"v{result}"``;
    one without a version equals None, and is -1 as a number. ``engine`` is ``arrow`` (in the process),
    ``spark``, ``pyiceberg``, or ``log`` if only the log was needed. ``metrics`` are the commit's, under
    Delta's names or Iceberg's, as integers (bytes, milliseconds, rows).

    >>> print(CommandResult("DELETE", 3, "log", {"numDeletedRows": 4, "numRemovedBytes": 4100}))
    DELETE  ✓ committed v3  log only
    Metrics  2 of 2 are above zero
    metric           value
    numDeletedRows   4
    numRemovedBytes  4.1 kB
    """

    operation: str
    version: int | None
    engine: str
    metrics: Mapping[str, int] = field(default_factory=dict)
    is_staged: bool = False
    """Whether it is a statement of a transaction that is still open: ``version`` is the one that it would
    have alone, and does not exist."""

    @classmethod
    def of(cls, operation: Operation, version: int | None, engine: str = "log") -> CommandResult:
        """The result of an operation with its version, or None if it was not committed.

        >>> from deltanb.transaction.operations import Operation
        >>> result = CommandResult.of(Operation("DELETE", metrics={"numDeletedRows": 4}), version=3)
        >>> result == 3, result.metrics
        (True, {'numDeletedRows': 4})
        """
        metrics = {name: int(value) for name, value in operation.metrics.items() if value is not None}
        return cls(operation.name, version, engine, metrics)

    @classmethod
    def staged(cls, result: Any) -> Any:
        """What a call within a transaction returns: a command's result as staged, anything else as it is.

        >>> result = CommandResult.staged(CommandResult("DELETE", 3, "log"))
        >>> result.is_staged, CommandResult.staged("no result")
        (True, 'no result')
        """
        return replace(result, is_staged=True) if isinstance(result, cls) else result

    def __new__(cls, operation: str, version: int | None, *_: Any, **__: Any) -> CommandResult:
        """The number comes before the fields."""
        return int.__new__(cls, -1 if version is None else version)

    def __getnewargs__(self) -> tuple[Any, ...]:  # type: ignore[override]
        return self.operation, self.version

    def __int__(self) -> int:
        if self.version is None:
            raise TypeError(f"{self.operation} committed nothing, so there is no version of it")
        return self.version

    def __format__(self, spec: str) -> str:
        return format(self.version if self.version is None and not spec else int(self), spec)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """The text in IPython, which would show a number: the sheet, or one line within other objects."""
        printer.text(str(self) if len(printer.stack) <= 1 else repr(self))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, CommandResult):
            return vars(self) == vars(other)
        return self.version == other if other is None or isinstance(other, int) else NotImplemented

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.version)

    @property
    def changes_data(self) -> bool:
        """Whether the command changes rows.

        >>> CommandResult("DELETE", 3, "log").changes_data, CommandResult("OPTIMIZE", 3, "arrow").changes_data
        (True, False)
        """
        return self.operation in CHANGES_DATA


class Stopwatch:
    """Milliseconds of a command's phases, by the clock of the options.

    >>> watch = Stopwatch()
    >>> watch.lap("scanTimeMs")
    >>> sorted(watch.metrics())
    ['executionTimeMs', 'scanTimeMs']
    """

    def __init__(self) -> None:
        self._start = self._last = options.clock()
        self._laps: dict[str, int] = {}

    def lap(self, name: str) -> None:
        """End the named phase, which began at the last lap or at the start."""
        now = options.clock()
        self._laps[name], self._last = now - self._last, now

    def metrics(self) -> dict[str, int]:
        """The phases, and the time from the start to the last lap as ``executionTimeMs``."""
        return {"executionTimeMs": self._last - self._start, **self._laps}
