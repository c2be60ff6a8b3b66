"""Ratification: several tables move in one transaction of the database, or none does.

What lives here: proposals and assertions about tables, and how they are executed within the transaction.
Tables are processed in the order of their ids, so that transactions do not deadlock; a table's row in
``iceberg_tables`` comes before its row in ``dn_delta_tables``, here and in every other transaction.
What it does not know: conflict rules and requirements. A refused transaction reads its winners and decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from deltanb.catalog.store.history import Change, text_of
from deltanb.catalog.store.names import TableName, joined
from deltanb.catalog.store.ownership import staged_id, take
from deltanb.catalog.store.rows import insert_iceberg, named
from deltanb.catalog.store.tables import delta_commits, delta_tables, garbage, iceberg_tables, sa
from deltanb.errors import DataFileNotFound, InvalidArgument, TableAlreadyExists
from deltanb.log.commits import STAGED_FOLDER
from deltanb.transaction.group import Ratified

__all__ = ["Asserted", "DeltaCommit", "IcebergSwap", "Ratified", "Refused", "moved", "time_of"]


@dataclass(frozen=True)
class DeltaCommit:
    """Version ``version`` of a Delta table: right after the latest one, or not at all.

    The commit is the staged file ``file_name``, or ``inline``, its content. Protocol and metadata in the
    catalog stay unchanged unless the commit sets them.
    """

    table_id: str
    name: TableName
    version: int
    file_name: str | None = None
    file_size: int | None = None
    mtime: int | None = None
    ict: int | None = None
    inline: bytes | None = field(default=None, repr=False)
    etag: str | None = None
    protocol: str | None = None
    metadata: str | None = None


@dataclass(frozen=True)
class IcebergSwap:
    """An Iceberg table's metadata file becomes ``after`` if it is ``before``; None: the table is new.

    ``places`` are folders that it owns from then on.
    """

    table_id: str
    name: TableName
    before: str | None
    after: str
    places: tuple[str, ...] = ()


@dataclass(frozen=True)
class Asserted:
    """A table that was read and is not written: its latest version or metadata file is still this one."""

    table_id: str
    name: TableName
    pointer: int | str


@dataclass(frozen=True)
class Refused:
    """Nothing moved. ``latest`` has each table that is not where it was expected, and where it is.

    None means that no table has this name: it was dropped or renamed.
    """

    latest: Mapping[str, int | str | None]


Member = DeltaCommit | IcebergSwap | Asserted


def ordered(proposals: Sequence[Member], assertions: Sequence[Asserted]) -> list[Member]:
    """All members of a transaction in the order of table ids.

    Raises:
        InvalidArgument: none at all, a table twice, or a Delta commit that is both a file and inline.
    """
    members = sorted([*proposals, *assertions], key=lambda member: member.table_id)
    if not members:
        raise InvalidArgument("a transaction of no tables cannot be ratified; propose or assert something")
    for one, other in pairwise(members):
        if one.table_id == other.table_id:
            raise InvalidArgument(f"the table {one.name} is in the transaction twice; a transaction names "
                                  "each table once")
    for member in members:
        if isinstance(member, DeltaCommit) and (member.file_name is None) == (member.inline is None):
            raise InvalidArgument(
                f"version {member.version} of {member.name} is either a staged file or inline, not both")
    return members


def time_of(members: Sequence[Member]) -> int | None:
    """When the commits of a transaction were made, as they say themselves (epoch ms): so their tables'
    histories have it. None where none says it."""
    times = [one.ict for one in members if isinstance(one, DeltaCommit) and one.ict is not None]
    return max(times, default=None)


def moved(
    connection: sa.Connection, catalog: str, txn_id: str, members: Sequence[Member]
) -> tuple[dict[str, Change], dict[str, int | str | None]]:
    """Execute proposals and check assertions; returns what moved, and the tables that are elsewhere.

    All members are tried, so that who is refused hears of all tables at once; then the caller rolls back.
    """
    changes: dict[str, Change] = {}
    refused: dict[str, int | str | None] = {}
    for member in members:
        is_delta = isinstance(member, DeltaCommit) or isinstance(getattr(member, "pointer", None), int)
        fits, latest = (_delta if is_delta else _iceberg)(connection, catalog, txn_id, member)
        if not fits:
            refused[member.table_id] = latest
        elif isinstance(member, DeltaCommit):
            changes[member.table_id] = (str(member.version - 1), str(member.version))
        elif isinstance(member, IcebergSwap):
            for place in member.places:
                take(connection, place, member.table_id, [staged_id(catalog, member.name)])
            changes[member.table_id] = (text_of(member.before), member.after)
    return changes, refused


def _delta(
    connection: sa.Connection, catalog: str, txn_id: str, member: Member
) -> tuple[bool, int | None]:
    # The row with the name is held, so that the table is neither renamed nor dropped before this ends.
    if connection.execute(_HELD_ROW, _key(catalog, member)).first() is None:
        return False, None
    if isinstance(member, DeltaCommit) and _advanced(connection, txn_id, member):
        return True, member.version
    latest = connection.execute(_LATEST, {"in_table": member.table_id}).scalar()
    return isinstance(member, Asserted) and latest == member.pointer, latest


def _advanced(connection: sa.Connection, txn_id: str, commit: DeltaCommit) -> bool:
    done = connection.execute(_ADVANCE, {
        "in_table": commit.table_id, "last": commit.version - 1, "new": commit.version,
        **{f"new_{name}": getattr(commit, name) for name in _RETAINED}})
    if not done.rowcount:
        return False
    added = connection.execute(_COMMIT, {
        "table_id": commit.table_id, "version": commit.version, "file_name": commit.file_name,
        "file_size": commit.file_size, "mtime": commit.mtime, "ict": commit.ict, "inline": commit.inline,
        "txn_id": txn_id, "staged": f"/{STAGED_FOLDER}/{commit.file_name}"},
        execution_options={"preserve_rowcount": True})
    if added.rowcount != 1:
        raise DataFileNotFound(
            f"version {commit.version} of {commit.name}: its staged file was swept, because ratifying it "
            "took too long; nothing was committed. Run the operation again",
            path=str(commit.file_name))
    return True


def _iceberg(
    connection: sa.Connection, catalog: str, txn_id: str, member: Member
) -> tuple[bool, str | None]:
    if isinstance(member, IcebergSwap):
        if member.before is None:
            return _created(connection, catalog, member)
        pointers = {"old": member.before, "new": member.after}
        if connection.execute(_SWAP, {**_key(catalog, member), **pointers}).rowcount:
            return True, member.after
    latest = connection.execute(_HELD_ROW, _key(catalog, member)).scalar()
    return isinstance(member, Asserted) and latest == member.pointer, latest


def _created(connection: sa.Connection, catalog: str, swap: IcebergSwap) -> tuple[bool, str | None]:
    try:
        insert_iceberg(connection, catalog, swap.name, swap.table_id, swap.after)
    except TableAlreadyExists:
        taken = sa.select(iceberg_tables.c.metadata_location).where(*named(catalog, swap.name))
        return False, connection.execute(taken).scalar()
    return True, swap.after


def _key(catalog: str, member: Member) -> dict[str, str]:
    name = member.name
    return {"in_catalog": catalog, "in_namespace": joined(name.namespace), "with_name": name.name,
            "with_id": member.table_id}


# Made once: SQLAlchemy takes longer to make a statement than the database to run it.

_row = iceberg_tables.c
_MEMBER = (
    _row.catalog_name == sa.bindparam("in_catalog"), _row.table_namespace == sa.bindparam("in_namespace"),
    _row.table_name == sa.bindparam("with_name"), _row.dn_table_id == sa.bindparam("with_id"))
_HELD_ROW = sa.select(_row.metadata_location).where(*_MEMBER).with_for_update(read=True)
_SWAP = iceberg_tables.update().where(*_MEMBER, _row.metadata_location == sa.bindparam("old")).values(
    metadata_location=sa.bindparam("new"), dn_recorded_location=sa.bindparam("new"),
    previous_metadata_location=_row.metadata_location)

_state = delta_tables.c
_LATEST = sa.select(_state.latest_version).where(
    _state.table_id == sa.bindparam("in_table")).with_for_update(read=True)
_RETAINED = {
    "ict": _state.last_ict, "etag": _state.etag, "protocol": _state.protocol, "metadata": _state.metadata}
_ADVANCE = delta_tables.update().where(
    _state.table_id == sa.bindparam("in_table"), _state.latest_version == sa.bindparam("last")
).values(latest_version=sa.bindparam("new"), **{
    column.name: sa.func.coalesce(sa.bindparam(f"new_{name}", type_=column.type), column)
    for name, column in _RETAINED.items()})
# A statement of its own after the table's row is held: it sees every claim (``CatalogStore.claim_staged``).
_CLAIMED = sa.exists().where(
    garbage.c.path == delta_tables.c.location + sa.bindparam("staged", type_=sa.Text), garbage.c.swept)
_COMMIT = delta_commits.insert().from_select(
    [column.name for column in delta_commits.c],
    sa.select(*(sa.cast(sa.bindparam(column.name, type_=column.type), column.type)
                for column in delta_commits.c))
    .where(_state.table_id == sa.bindparam("table_id"), ~_CLAIMED))
