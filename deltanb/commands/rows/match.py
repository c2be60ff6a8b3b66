"""By what new rows replace rows of a table, as people say it.

What lives here: :class:`Match`. What it does not know: how matching rows are found (``replace``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deltanb.errors import InvalidArgument
from deltanb.schema.column_names import column_names
from deltanb.schema.types import backticked
from deltanb.transaction.operations import REPLACE_ON, REPLACE_USING

__all__ = ["Match", "match_of"]


@dataclass(frozen=True)
class Match:
    """By what new rows replace rows of a table: SQL over both, or columns with equal values.

    NULL equals nothing, except by ``<=>``. ``target_alias`` and ``source_alias`` name the table and the new
    rows in the SQL.
    """

    on: str | None = None
    using: tuple[str, ...] | None = None
    target_alias: str = "target"
    source_alias: str = "source"

    @property
    def sql(self) -> str:
        """The condition."""
        if self.on is not None:
            return self.on
        assert self.using is not None
        sides = (backticked(self.target_alias), backticked(self.source_alias))
        return " AND ".join(" = ".join(f"{side}.{backticked(name)}" for side in sides) for name in self.using)

    @property
    def parameters(self) -> dict[str, str]:
        """It in a commit, under Delta's names."""
        if self.using is not None:
            return {REPLACE_USING: f"({', '.join(self.using)})"}
        return {REPLACE_ON: self.sql}


def match_of(
    on: str | None, using: str | Sequence[str] | None, target_alias: str = "target",
    source_alias: str = "source",
) -> Match | None:
    """What the arguments of an overwrite say; None where they say nothing.

    Raises:
        InvalidArgument: both, no SQL, or no names.

    >>> match_of(None, ["id", "day"]).sql
    '`target`.`id` = `source`.`id` AND `target`.`day` = `source`.`day`'
    """
    if on is None and using is None:
        return None
    if on is not None and using is not None:
        raise InvalidArgument("replace_on and replace_using contradict each other; give one of them")
    if on is not None:
        if not isinstance(on, str):
            raise InvalidArgument(f"replace_on is SQL text, found {on!r:.80}")
        return Match(on, None, target_alias, source_alias)
    return Match(None, column_names(using, "replace_using"), target_alias, source_alias)
