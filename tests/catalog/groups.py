"""Whether the commits of a catalog's transactions name each other as the transactions were."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import deltanb as dn
from deltanb.actions import CommitInfo, Protocol, TransactionGroup
from deltanb.actions.markers import GROUP_TAG
from deltanb.schema.protocol import GROUPS

SUPPORTED = {f"delta.feature.{GROUPS}": "supported"}
"""The property with which a table is created to have the feature."""


def disagreements(catalog: dn.Catalog, namespace: str) -> Iterator[str]:
    """What the commits say that the catalog's history does not, and the reverse.

    Tables that were dropped since are not looked for.
    """
    tables = {catalog.store.tables.load(name).table_id: catalog.table(name)
              for name in catalog.list_tables(namespace)}
    for entry in catalog.history():
        written = {table_id: int(after) for table_id, (before, after) in entry.changes.items()
                   if before is not None and str(after).isdigit() and after != before}
        is_whole = written.keys() <= tables.keys()  # of others nobody can say what features they had
        is_grouped = len(written) > 1 and is_whole and all(
            _has_feature(tables[table_id], version) for table_id, version in written.items())
        for table_id, version in written.items():
            if table_id in tables:
                named = _group(tables[table_id], version)
                at = f"{tables[table_id].name} v{version}"
                if named is None:
                    if is_grouped:
                        yield f"{at} names no group"
                elif not is_grouped and is_whole:
                    yield f"{at} names a group of its own"
                elif named.versions != written or named.transaction_id != entry.txn_id:
                    yield f"{at} names {named.versions} of {named.transaction_id}, it was {written}"
                elif named.coordinating_catalog != catalog.name:
                    yield f"{at} names the catalog {named.coordinating_catalog}"


def _has_feature(table: dn.DeltaTable, version: int) -> bool:
    """Whether a table has the feature once a version is committed."""
    protocols = [action for at in range(version + 1) for action in table.log.read_commit(at)
                 if isinstance(action, Protocol)]
    return protocols[-1].supports(GROUPS)


def _group(table: dn.DeltaTable, version: int) -> TransactionGroup | None:
    """The group that a commit names; its commitInfo has the tag for it, and no other commit has."""
    actions = table.log.read_commit(version)
    groups: list[Any] = [action for action in actions if isinstance(action, TransactionGroup)]
    assert len(groups) < 2
    [info] = [action for action in actions if isinstance(action, CommitInfo)]
    assert (info.tags or {}).get(GROUP_TAG) == (groups[0].transaction_id if groups else None)
    return groups[0] if groups else None


def num_groups(table: dn.DeltaTable) -> int:
    """How many of a table's commits name a group."""
    return sum(_group(table, version) is not None for version in range(1, table.version + 1))
