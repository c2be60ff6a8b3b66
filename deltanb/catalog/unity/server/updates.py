"""Updates of a Delta table in Unity Catalog's API: checked and applied.

What lives here: the request, its requirements, and its three kinds of updates: propose a commit, report what
is published, change what only the catalog stores.
What it does not know: HTTP, and how a commit is ratified in the database (``store``).

What is in the table's log changes through commits only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from deltanb.catalog.delta.commits import staged_name
from deltanb.catalog.delta.managed import summary_of
from deltanb.catalog.delta.tables import require_managed
from deltanb.catalog.iceberg.metadata.fields import (
    Check,
    Json,
    array,
    record,
    refuse,
    shaped,
    tagged,
    text,
    texts,
    uuid_text,
)
from deltanb.catalog.limits import unlimited
from deltanb.catalog.store.ratification import DeltaCommit, Refused
from deltanb.catalog.store.rows import DeltaState, TableRow
from deltanb.catalog.store.store import CatalogStore, Commit, Tail
from deltanb.catalog.store.tables import delta_tables
from deltanb.catalog.unity.contract import require_domains, require_features
from deltanb.catalog.unity.forms import (
    COUNT,
    columns_of,
    commit_of,
    domains_of,
    is_derived,
    last_change,
    protocol_of,
    uniform_of,
)
from deltanb.catalog.unity.server.claims import believed
from deltanb.catalog.unity.server.commits import disagreement, staged
from deltanb.catalog.unity.server.refusals import RequirementConflict, TooManyUnpublished, VersionConflict
from deltanb.errors import CommitOutcomeUnknown, InvalidArgument, StorageError, TableNotFound
from deltanb.log.commits import commit_name
from deltanb.options import random_id
from deltanb.schema.protocol import CATALOG_TABLE_ID
from deltanb.store.base import LogStore

__all__ = ["Update", "update_of", "updated"]

MAX_UNPUBLISHED = 10
"""Commits of a table that may be unpublished: readers fetch each of them one by one."""

ADD, PUBLISHED = "add-commit", "set-latest-backfilled-version"
OF_THE_CATALOG = ("set-table-comment", "set-properties", "remove-properties")
"""What may be changed without a commit: the comment, and properties that are none of Delta's."""

_FIELDS: Mapping[str, Mapping[str, Check]] = {
    ADD: {"commit": commit_of},
    PUBLISHED: {"latest-published-version": COUNT},
    "set-properties": {"updates": texts},
    "remove-properties": {"removals": array(text)},
    "set-columns": {"columns": columns_of},
    "set-table-comment": {"comment": text},
    "set-protocol": {"protocol": protocol_of},
    "set-domain-metadata": {"updates": domains_of},
    "remove-domain-metadata": {"domains": array(text)},
    "set-partition-columns": {"partition-columns": array(text)},
    "update-metadata-snapshot-version": {"last-commit-version": COUNT, "last-commit-timestamp-ms": COUNT}}

_UPDATES: Mapping[str, Check] = {
    action: record({"action": text, **fields}, {"uniform": uniform_of} if action == ADD else {})
    for action, fields in _FIELDS.items()}

_REQUIREMENTS: Mapping[str, Check] = {
    "assert-table-uuid": record({"type": text, "uuid": uuid_text}),
    "assert-etag": record({"type": text, "etag": text})}


@dataclass(frozen=True)
class Update:
    """A request to change a table: its requirements, and its updates by action."""

    uuid: str
    etag: str | None
    actions: Mapping[str, Json]


def _one_of(kinds: Mapping[str, Check], tag: str) -> Check:
    """The check of an array of objects that their field ``tag`` tells apart, each kind at most once."""

    @shaped(array(tagged(tag, "", kinds)))
    def check(value: Any, path: str) -> dict[str, Json]:
        by_kind: dict[str, Json] = {}
        for at, each in enumerate(array(lambda each, _: each)(value, path)):
            here = f"{path}[{at}]"
            kind = each.get(tag) if isinstance(each, dict) else None
            if not isinstance(kind, str) or kind not in kinds:
                refuse(f"{here}.{tag}", f"must be one of {', '.join(kinds)}")
            if kind in by_kind:
                _refuse_request(f"{here}.{tag}", f"is {kind} again; each comes at most once")
            by_kind[kind] = kinds[kind](each, here)
        return by_kind

    return check


_REQUEST = record({"requirements": _one_of(_REQUIREMENTS, "type"), "updates": _one_of(_UPDATES, "action")})


@shaped(_REQUEST)
def update_of(value: Any, path: str) -> Update:
    """The check of a request to change a table.

    Raises:
        BadRequest: it is malformed, or two actions contradict each other.
        InvalidArgument: an action comes twice, or no table's id is required.
    """
    fields = _REQUEST(value, path)
    requirements, actions = fields["requirements"], fields["updates"]
    if "assert-table-uuid" not in requirements:
        _refuse_request(f"{path}.requirements", "lacks assert-table-uuid")
    if not actions:
        refuse(f"{path}.updates", "is empty")
    both = set(_field_of(actions, "set-properties", "updates")) & set(
        _field_of(actions, "remove-properties", "removals"))
    both |= set(_field_of(actions, "set-domain-metadata", "updates")) & set(
        _field_of(actions, "remove-domain-metadata", "domains"))
    if both:
        refuse(f"{path}.updates", f"both set and remove {', '.join(sorted(both))}")
    for name in (*_field_of(actions, "set-properties", "updates"),
                 *_field_of(actions, "remove-properties", "removals")):
        if is_derived(name):
            refuse(f"{path}.updates", f"name the property {name}, which the catalog derives")
    etag = requirements.get("assert-etag", {}).get("etag")
    return Update(requirements["assert-table-uuid"]["uuid"], etag, actions)


def _refuse_request(path: str, reason: str) -> NoReturn:
    """Refuse a request whose parts are each well-formed, as Unity Catalog's server tells the two apart."""
    raise InvalidArgument(f"{path.lstrip('.')} {reason}")


def _field_of(actions: Mapping[str, Json], action: str, field: str) -> Any:
    return actions.get(action, {}).get(field, ())


def updated(
    store: CatalogStore, files: LogStore | None, row: TableRow, tail: Tail, update: Update,
    principal: str | None,
) -> None:
    """Do what a request asks for of a table as it is, whose folder is ``files``; without it no file is read,
    and what the request claims is believed.

    Raises:
        RequirementConflict: it is not what the request requires.
        VersionConflict: another commit has its next version.
        TooManyUnpublished: commits have to be published first.
        InvalidArgument: what cannot be done.
    """
    add = update.actions.get(ADD)
    if add is not None and update.uuid == row.table_id and _is_replayed(files, tail, add["commit"]):
        return
    _require(row, update)
    if "update-metadata-snapshot-version" in update.actions:
        raise InvalidArgument("update-metadata-snapshot-version is for tables that no catalog manages")
    if files is None:
        _require_contract(row.delta, update.actions)
    published = update.actions.get(PUBLISHED)
    left = tail
    if published is not None:
        left = _left_by_report(row, files, tail, published["latest-published-version"], add is not None)
    if add is not None:
        _commit(store, row, files, left, update, principal)
    elif set(update.actions) - {PUBLISHED}:
        if files is not None:
            _require_of_the_catalog(update)
        _rewrite(store, row, update)
    if left.published > tail.published:  # last: of a request that is refused nothing is done
        _report(store, row, left.published, add)


def _require(row: TableRow, update: Update) -> None:
    assert row.delta is not None
    if update.uuid != row.table_id:
        raise RequirementConflict(
            f"assert-table-uuid: {row.name} has the id {row.table_id}, not {update.uuid}",
            failed_requirements=[])
    now = row.delta.etag or ".".join(map(str, last_change(None, json.loads(row.delta.metadata or "{}"))))
    if update.etag is not None and update.etag != now:
        raise RequirementConflict(
            f"assert-etag: {row.name} has the etag {now}, not {update.etag}; load it again",
            failed_requirements=[])


def _require_contract(state: DeltaState | None, actions: Mapping[str, Json]) -> None:
    """Refuse a protocol without what a managed table has to have, or a domain without its feature: of what is
    believed, this is looked at all the same."""
    assert state is not None
    if "set-protocol" in actions:
        require_features(actions["set-protocol"]["protocol"])
    protocol = actions.get("set-protocol", {}).get("protocol") or json.loads(state.protocol or "{}")
    require_domains(protocol, _field_of(actions, "set-domain-metadata", "updates"))


def _is_replayed(files: LogStore | None, tail: Tail, commit: Commit) -> bool:
    """Whether a proposed commit is ratified already; one that is published is known by its content, and
    without ``files`` not at all."""
    if commit.version > tail.latest:
        return False
    for each in tail.commits:
        if each.version == commit.version:
            return each.file_name == commit.file_name
    if files is None:
        return False
    try:
        body = files.read(staged_name(str(commit.file_name)))
    except FileNotFoundError:
        return False
    try:
        return body == files.read(commit_name(commit.version))
    except FileNotFoundError as error:
        raise CommitOutcomeUnknown(
            f"version {commit.version} is published and not in the table's log any more, so it is not known "
            "whether it was this commit; load the table", version=commit.version) from error


def _report(store: CatalogStore, row: TableRow, version: int, add: Json | None) -> None:
    """Say up to where the folder has all versions: the catalog forgets them.

    Raises:
        CommitOutcomeUnknown: it could not be said, and the commit that came with it is ratified.
    """
    try:
        with unlimited():
            store.set_published(str(row.table_id), version)
    except StorageError as error:
        if add is None:
            raise
        raise CommitOutcomeUnknown(
            f"version {add['commit'].version} of {row.name} is ratified, and that {version} is published "
            f"could not be noted: {error}", version=add["commit"].version) from error


def _left_by_report(
    row: TableRow, files: LogStore | None, tail: Tail, version: int, commits: bool
) -> Tail:
    """The commits after a report of what is published, whose files are looked at."""
    if version > tail.latest:
        raise InvalidArgument(f"{PUBLISHED}: {version} is not ratified, the latest version is {tail.latest}")
    if tail.latest == 0 and not commits:
        raise InvalidArgument(f"{PUBLISHED}: {row.name} has no commit yet that could be published")
    for commit in tail.commits:
        if files is not None and commit.version <= version and (
                files.status(commit_name(commit.version)) is None):
            raise InvalidArgument(f"{PUBLISHED}: version {commit.version} is not in the table's _delta_log")
    left = tuple(commit for commit in tail.commits if commit.version > version)
    return Tail(tail.latest, max(version, tail.published), left)


def _commit(
    store: CatalogStore, row: TableRow, files: LogStore | None, tail: Tail, update: Update,
    principal: str | None,
) -> None:
    """Have the next version ratified."""
    assert row.delta is not None
    add = update.actions[ADD]
    commit: Commit = add["commit"]
    if "uniform" in add:
        raise InvalidArgument("add-commit: uniform: tables here are not converted to Iceberg")
    if commit.version <= tail.latest:
        raise _conflict(row, commit, tail.latest)
    if commit.version > tail.latest + 1:  # no other commit can have won: nothing would come of another try
        raise InvalidArgument(
            f"add-commit: version is {commit.version}, and the one after the latest is {tail.latest + 1}")
    if len(tail.commits) >= MAX_UNPUBLISHED:
        raise TooManyUnpublished(
            f"{row.name} has {len(tail.commits)} commits that are not published, and may have "
            f"{MAX_UNPUBLISHED}; publish them, and report it with {PUBLISHED}")
    txn_id, operation, retained = (
        _claimed(row.delta, update.actions) if files is None else _checked(files, row.delta, update.actions))
    verdict = store.ratify(txn_id, principal, [DeltaCommit(
        str(row.table_id), row.name, commit.version, commit.file_name, commit.file_size, commit.mtime,
        commit.ict, **retained)], summary=summary_of({str(row.name): operation}))
    if isinstance(verdict, Refused):
        latest = verdict.latest[str(row.table_id)]
        if latest is None:
            raise TableNotFound(f"there is no table {row.name} in the catalog any more", path=str(row.name))
        raise _conflict(row, commit, latest)
    if files is None:  # its id is new, and so is what was ratified
        return
    # A transaction that is ratified once is so for good: another file of it may have been first.
    with unlimited():
        tail = store.tails([str(row.table_id)])[str(row.table_id)]
    if not _is_replayed(files, tail, commit):
        raise _conflict(row, commit, commit.version)


def _checked(
    files: LogStore, state: DeltaState, actions: Mapping[str, Json]
) -> tuple[str, str | None, Mapping[str, Any]]:
    """Of a commit whose file was read: its transaction, its operation, and what the catalog keeps of it."""
    after = staged(files, actions[ADD]["commit"], state)
    before = json.loads(state.metadata or "{}").get("configuration") or {}
    require_managed(after.protocol, after.metadata, before.get(CATALOG_TABLE_ID))
    disagreement(actions, after)
    return after.info["txnId"], after.info.get("operation"), after.retained


def _claimed(
    state: DeltaState, actions: Mapping[str, Json]
) -> tuple[str, str | None, Mapping[str, Any]]:
    """The same of a commit that is believed."""
    commit: Commit = actions[ADD]["commit"]
    after = believed(actions, state, commit.version, int(str(commit.ict)))
    return random_id(), None, {
        "protocol": after.protocol, "metadata": after.metadata, "etag": after.etag}


def _conflict(row: TableRow, commit: Commit, latest: object) -> VersionConflict:
    return VersionConflict(
        f"{row.name}: version {commit.version} cannot be committed, the latest one is {latest}; load the "
        "table again", failed_requirements=[])


def _rewrite(store: CatalogStore, row: TableRow, update: Update) -> None:
    """Change what the catalog keeps of a table, without a commit."""
    assert row.delta is not None
    version, time = last_change(row.delta.etag, json.loads(row.delta.metadata or "{}"))
    after = believed(update.actions, row.delta, version, time)
    _swap(store, row, replace(after, etag=f"{version}.{time}.{random_id()[:8]}"))


def _require_of_the_catalog(update: Update) -> None:
    """Refuse what changes by commits only."""
    for action in update.actions:
        if action not in (*OF_THE_CATALOG, PUBLISHED):
            raise InvalidArgument(
                f"{action}: it has a place in the table's log, and comes with an add-commit")
    for name in (*_field_of(update.actions, "set-properties", "updates"),
                 *_field_of(update.actions, "remove-properties", "removals")):
        if name.startswith("delta.") or name == CATALOG_TABLE_ID:
            raise InvalidArgument(f"set-properties: {name} has a place in the table's log, and comes with an "
                                  "add-commit")


def _swap(store: CatalogStore, row: TableRow, after: Any) -> None:
    columns = delta_tables.c
    same = columns.table_id == row.table_id, columns.metadata.is_not_distinct_from(
        row.delta.metadata), columns.etag.is_not_distinct_from(row.delta.etag)  # type: ignore[union-attr]
    statement = delta_tables.update().where(*same).values(
        protocol=after.protocol, metadata=after.metadata, etag=after.etag)
    if not store.database.write(lambda connection: connection.execute(statement).rowcount):
        raise RequirementConflict(
            f"{row.name} was changed meanwhile; load it again", failed_requirements=[])
