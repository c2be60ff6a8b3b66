"""A Unity Catalog at a glance: its first schemas and the first tables in them.

What lives here: :func:`overview_of`, the few requests for a picture of a catalog.
What it does not know: how it is shown.

Unity Catalog lists tables by schema and counts nothing, so that an exact number would be a request per page.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from deltanb.catalog.store.names import MAX_PAGE
from deltanb.catalog.store.rows import TableRow
from deltanb.errors import DeltaError

if TYPE_CHECKING:
    from deltanb.catalog.unity.client.store import UnityStore

__all__ = ["UnityOverview", "overview_of"]

MAX_LISTED = 3  # schemas whose tables are asked for, a request each


@dataclass(frozen=True)
class UnityOverview:
    """The first schemas of a catalog, and the first tables of some of them."""

    schemas: tuple[str, ...]
    has_more_schemas: bool
    """Whether the catalog has others than these."""
    tables: tuple[TableRow, ...]
    partly_listed: tuple[str, ...] = ()
    """Schemas that have further tables."""
    unlisted: tuple[str, ...] = ()
    """Schemas whose tables were not asked for."""
    refused: dict[str, str] = field(default_factory=dict)
    """Schema -> why its tables could not be listed."""

    @property
    def num_tables(self) -> int:
        """The number of tables that are listed."""
        return len(self.tables)

    @property
    def is_whole(self) -> bool:
        """Whether all schemas and tables are here."""
        return not (self.has_more_schemas or self.partly_listed or self.unlisted or self.refused)


def overview_of(store: UnityStore, most: int) -> UnityOverview:
    """At most ``most`` schemas and tables of a catalog, in ``1 + MAX_LISTED`` requests at most.

    Raises:
        DeltaError: its schemas cannot be listed.
    """
    page = store.namespaces.children((), None, min(most, MAX_PAGE))
    names = [parts[0] for parts in page.items]
    schemas = tuple(names[:most])
    tables: list[TableRow] = []
    partly, unlisted, refused = [], [], {}
    for number, schema in enumerate(schemas):
        free = most - len(tables)
        if number >= MAX_LISTED or not free:
            unlisted.append(schema)
            continue
        try:
            listed = store.tables.page(schema, None, min(free, MAX_PAGE))
        except DeltaError as error:
            refused[schema] = type(error).__name__
            continue
        tables += listed.items[:free]
        if listed.next_token is not None or len(listed.items) > free:
            partly.append(schema)
    return UnityOverview(
        schemas, page.next_token is not None or len(names) > most, tuple(tables), tuple(partly),
        tuple(unlisted), refused)
