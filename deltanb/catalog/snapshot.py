"""Tables of a catalog at one instant: the result of ``catalog.snapshot([...])`` and ``catalog.as_of(time)``.

What lives here: :class:`CatalogSnapshot`.
What it does not know: how a table is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from deltanb.catalog.iceberg.commit import IcebergTable as Loaded
from deltanb.catalog.iceberg.table import PinnedIcebergTable
from deltanb.catalog.store.names import TableName
from deltanb.table.table import DeltaTable
from deltanb.text.display import Displayable
from deltanb.text.spellings import answer_wrong_arguments

if TYPE_CHECKING:
    from deltanb.catalog.catalog import Catalog

__all__ = ["CatalogSnapshot"]


@answer_wrong_arguments()
class CatalogSnapshot(Displayable, Mapping[str, Any]):
    """The tables of a catalog after one of its transactions, all read-only.

    A commit of several tables is never seen in part, since all tables are as of one instant.

    >>> import deltanb as dn
    >>> catalog = dn.Catalog("sqlite:///lake.db", warehouse="lake")
    >>> catalog.create_namespace("shop")
    >>> orders = catalog.create_table("shop.orders", {"id": [1]})
    >>> then = catalog.snapshot(["shop.orders"])
    >>> _ = orders.append({"id": [2]})
    >>> then["shop.orders"].to_arrow().num_rows, orders.to_arrow().num_rows
    (1, 2)
    """

    def __init__(self, catalog: Catalog, seq: int, names: Iterable[Any] = ()) -> None:
        self.catalog = catalog
        self.seq = seq
        """The catalog's transaction after which the tables are seen."""
        self._tables: dict[TableName, DeltaTable | PinnedIcebergTable] = {}
        for name in names:
            self.table(name)

    def table(self, name: Any) -> Any:
        """One of the tables, at the instant.

        Raises:
            TableNotFound: the table does not exist, or did not exist then.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///then.db", warehouse="then")
        >>> catalog.create_namespace("shop")
        >>> orders = catalog.create_table("shop.orders", {"id": [1, 2]})
        >>> then = catalog.snapshot(["shop.orders"])
        >>> _ = orders.append({"id": [3]})
        >>> then.table("shop.orders").count(), orders.count()
        (2, 3)
        """
        name = TableName.of(name)
        if name not in self._tables:
            table = self.catalog.table_at(name, self.seq)
            self._tables[name] = PinnedIcebergTable(self.catalog.iceberg, table) if isinstance(
                table, Loaded) else DeltaTable(*table)
        return self._tables[name]

    def __getitem__(self, name: Any) -> Any:
        return self.table(name)

    def __contains__(self, name: object) -> bool:
        return TableName.of(name) in self._tables

    def __iter__(self) -> Iterator[str]:
        return map(str, self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    @property
    def loaded(self) -> dict[str, Any]:
        """The tables that were loaded so far.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///loaded.db", warehouse="loaded")
        >>> catalog.create_namespace("shop")
        >>> _ = catalog.create_table("shop.orders", {"id": [1, 2]})
        >>> then = catalog.snapshot(["shop.orders"])
        >>> _ = then["shop.orders"]
        >>> list(then.loaded)
        ['shop.orders']
        """
        return {str(name): table for name, table in self._tables.items()}

    @property
    def versions(self) -> dict[str, int | None]:
        """The version of each loaded table; for an Iceberg table, the id of its snapshot.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///snapshot_versions.db", warehouse="snapshot_versions")
        >>> catalog.create_namespace("shop")
        >>> _ = catalog.create_table("shop.orders", {"id": [1, 2]})
        >>> catalog.snapshot(["shop.orders"]).versions
        {'shop.orders': 0}
        """
        return {str(name): table.version if isinstance(table, DeltaTable) else table.snapshot_id
                for name, table in self._tables.items()}
