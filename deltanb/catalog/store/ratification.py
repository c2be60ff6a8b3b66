"""Ratification: several tables move in one transaction of the database, or none does.

What lives here: proposals and assertions about tables, and how they are executed within the transaction.
Tables are processed in the order of their ids, so that transactions do not deadlock; a table's row in
``iceberg_tables`` comes before its row in ``dn_delta_tables``, here and in every other transaction.
What it does not know: conflict rules and requirements. A refused transaction reads its winners and decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import Any

from deltanb.catalog.store.foreign import UNRECORDED
from deltanb.catalog.store.history import Change, text_of
from deltanb.catalog.store.names import TableName, joined
from deltanb.catalog.store.ownership import staged_id, take
from deltanb.catalog.store.rows import insert_iceberg, named
from deltanb.catalog.store.statements import Prepared, for_each_count, ids_of
from deltanb.catalog.store.tables import delta_commits, delta_tables, garbage, iceberg_tables, sa
from deltanb.errors import DataFileNotFound, InvalidArgument, TableAlreadyExists
from deltanb.log.commits import STAGED_FOLDER
from deltanb.transaction.group import Ratified

__all__ = ["Asserted", "DeltaCommit", "Held", "IcebergSwap", "Overtaken", "Ratified", "Refused", "hold",
           "moved", "time_of"]


@dataclass(frozen=True)
class DeltaCommit:
    """Version ``version`` of a Delta table: right after the latest one, or not at all.

    The commit is the staged file ``file_name``, or ``inline``, its content. Protocol and metadata in the
    catalog stay unchanged unless the commit sets them. All versions up to ``published`` are in the folder.
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
    published: int | None = None


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
        InvalidArgument: none at all, a table twice, a Delta commit that is both a file and inline, or one
            that says of itself or of a later one that it is published.
    """
    members = sorted([*proposals, *assertions], key=lambda member: member.table_id)
    if not members:
        raise InvalidArgument("a transaction of no tables cannot be ratified; propose or assert something")
    for one, other in pairwise(members):
        if one.table_id == other.table_id:
            raise InvalidArgument(f"the table {one.name} is in the transaction twice; a transaction names "
                                  "each table once")
    for member in members:
        if not isinstance(member, DeltaCommit):
            continue
        if (member.file_name is None) == (member.inline is None):
            raise InvalidArgument(
                f"version {member.version} of {member.name} is either a staged file or inline, not both")
        if member.published is not None and member.published >= member.version:
            raise InvalidArgument(
                f"version {member.published} of {member.name} cannot be published: it is not ratified before "
                f"version {member.version}")
    return members


def time_of(members: Sequence[Member]) -> int | None:
    """When the commits of a transaction were made, as they say themselves (epoch ms): so their tables'
    histories have it. None where none says it."""
    times = [one.ict for one in members if isinstance(one, DeltaCommit) and one.ict is not None]
    return max(times, default=None)


@dataclass(frozen=True)
class Held:
    """What the database has of the Delta tables of a transaction, whose rows with the names are held: none of
    the tables is renamed or dropped before it ends."""

    latest: Mapping[str, int]
    """The version of each by its id; without those that have another name by now, or none."""
    is_behind: bool
    """Whether other programs have moved tables, and the history has not taken that in."""


def hold(connection: sa.Connection, catalog: str, members: Sequence[Member]) -> Held:
    """Hold the Delta tables of a transaction, all by one statement; the first thing in it."""
    names = {member.table_id: member.name for member in members if _is_delta(member)}
    if not names:
        return Held({}, bool(_IS_BEHIND.run(connection, {"in_catalog": catalog}).scalar()))
    rows = _HELD(len(names)).run(connection, {"in_catalog": catalog, **ids_of(list(names))}).all()
    latest = {table_id: version for table_id, space, name, version, _ in rows
              if (space, name) == (joined(names[table_id].namespace), names[table_id].name)}
    return Held(latest, any(is_behind for *_, is_behind in rows))


def moved(
    connection: sa.Connection, catalog: str, txn_id: str, members: Sequence[Member], held: Held
) -> tuple[dict[str, Change], dict[str, int | str | None]]:
    """Execute proposals and check assertions; returns what moved, and the tables that are elsewhere.

    All members are tried, so that who is refused hears of all tables at once; then the caller rolls back.

    Raises:
        Overtaken: a commit of another transaction landed since the tables were held.
    """
    changes: dict[str, Change] = {}
    refused: dict[str, int | str | None] = {
        member.table_id: held.latest.get(member.table_id) for member in members
        if isinstance(member, DeltaCommit) and held.latest.get(member.table_id) != member.version - 1}
    for commits, some in groupby(members, lambda member: isinstance(member, DeltaCommit)):
        if commits:  # next to each other: so the order of all ids stays
            if not refused:
                changes |= _advance(connection, txn_id, [*some])  # type: ignore[list-item]
            continue
        for member in some:
            fits, latest = (_stays if _is_delta(member) else _iceberg)(connection, catalog, member, held)
            if not fits:
                refused[member.table_id] = latest
            elif isinstance(member, IcebergSwap):
                for place in member.places:
                    take(connection, place, member.table_id, [staged_id(catalog, member.name)])
                changes[member.table_id] = (text_of(member.before), member.after)
    return changes, refused


class Overtaken(Exception):
    """Another transaction moved a table just now: what was read of it is to be read again."""


def _is_delta(member: Member) -> bool:
    return isinstance(member, DeltaCommit) or isinstance(getattr(member, "pointer", None), int)


def _advance(
    connection: sa.Connection, txn_id: str, commits: Sequence[DeltaCommit]
) -> dict[str, Change]:
    """Move Delta tables on, in the order of their ids, and record their commits."""
    done = _ADVANCE.run(connection, [{
        "in_table": each.table_id, "last": each.version - 1, "new": each.version, "up_to": each.published,
        **{f"new_{name}": getattr(each, name) for name in _RETAINED}} for each in commits])
    if done.rowcount != len(commits):
        raise Overtaken
    added = _COMMIT.run(connection, [{
        "table_id": each.table_id, "version": each.version, "file_name": each.file_name,
        "file_size": each.file_size, "mtime": each.mtime, "ict": each.ict, "inline": each.inline,
        "txn_id": txn_id, "staged": f"/{STAGED_FOLDER}/{each.file_name}"} for each in commits])
    if added.rowcount != len(commits):
        of = ", ".join(f"version {each.version} of {each.name}" for each in commits)
        raise DataFileNotFound(
            f"{of}: a staged file was swept, because ratifying it took too long; nothing was committed. Run "
            "the operation again", path=str(commits[0].file_name))
    published = [{"of_table": each.table_id, "up_to": each.published} for each in commits
                 if each.published is not None]
    if published:
        PUBLISHED.run(connection, published)
    return {each.table_id: (str(each.version - 1), str(each.version)) for each in commits}


def _stays(
    connection: sa.Connection, catalog: str, member: Member, held: Held
) -> tuple[bool, int | None]:
    """Whether a Delta table that was read is where it was."""
    if member.table_id not in held.latest:
        return False, None
    latest = connection.execute(_LATEST, {"in_table": member.table_id}).scalar()
    return isinstance(member, Asserted) and latest == member.pointer, latest


def _iceberg(
    connection: sa.Connection, catalog: str, member: Member, held: Held
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

_IS_BEHIND = Prepared(sa.select(sa.exists(UNRECORDED)))


@for_each_count
def _HELD(ids: list[sa.BindParameter[str]]) -> sa.Select[Any]:
    return sa.select(
        _row.dn_table_id, _row.table_namespace, _row.table_name, _state.latest_version,
        sa.exists(UNRECORDED.correlate(None)).label("is_behind"),
    ).join_from(iceberg_tables, delta_tables, _state.table_id == _row.dn_table_id).where(
        _row.catalog_name == sa.bindparam("in_catalog"), _row.dn_table_id.in_(ids),
    ).order_by(_row.dn_table_id).with_for_update(read=True, of=iceberg_tables)


_state = delta_tables.c
_LATEST = sa.select(_state.latest_version).where(
    _state.table_id == sa.bindparam("in_table")).with_for_update(read=True)
_RETAINED = {
    "ict": _state.last_ict, "etag": _state.etag, "protocol": _state.protocol, "metadata": _state.metadata}
_ADVANCE = Prepared(delta_tables.update().where(
    _state.table_id == sa.bindparam("in_table"), _state.latest_version == sa.bindparam("last")
).values(latest_version=sa.bindparam("new"), published_version=sa.case(
    (sa.bindparam("up_to", type_=sa.BigInteger) > _state.published_version,
     sa.bindparam("up_to", type_=sa.BigInteger)), else_=_state.published_version), **{
    column.name: sa.func.coalesce(sa.bindparam(f"new_{name}", type_=column.type), column)
    for name, column in _RETAINED.items()}))
# A statement of its own after the table's row is held: it sees every claim (``CatalogStore.claim_staged``).
_CLAIMED = sa.exists().where(
    garbage.c.path == delta_tables.c.location + sa.bindparam("staged", type_=sa.Text), garbage.c.swept)
_COMMIT = Prepared(delta_commits.insert().from_select(
    [column.name for column in delta_commits.c],
    sa.select(*(sa.cast(sa.bindparam(column.name, type_=column.type), column.type)
                for column in delta_commits.c))
    .where(_state.table_id == sa.bindparam("table_id"), ~_CLAIMED)))
PUBLISHED = Prepared(delta_commits.delete().where(
    delta_commits.c.table_id == sa.bindparam("of_table"), delta_commits.c.version <= sa.bindparam("up_to")))
