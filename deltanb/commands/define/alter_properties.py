"""ALTER TABLE SET and UNSET TBLPROPERTIES: properties, description and name of a table.

What lives here: which properties can be set, and the consequences: the protocol is raised, column mapping
gives every column an id and keeps the names in files, row tracking first gives ids to existing rows.
What it does not know: the later effects of a property.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deltanb.actions import Metadata
from deltanb.commands.begin import begin
from deltanb.commands.define.alter import CHECK_PREFIX, commit_metadata
from deltanb.commands.define.row_tracking import backfill
from deltanb.commands.result import CommandResult
from deltanb.errors import InvalidArgument
from deltanb.schema import column_mapping, properties
from deltanb.schema.paths import walk
from deltanb.schema.protocol import FEATURE_PREFIX
from deltanb.text.safe_text import shown
from deltanb.transaction import active
from deltanb.transaction.new_table import with_materialized_names
from deltanb.transaction.operations import Operation

if TYPE_CHECKING:
    from deltanb.transaction.delta_log import DeltaLog

COMMENT = "comment"
"""The name under which SQL sets a table's description."""

ROW_TRACKING = "delta.enableRowTracking"
SUSPENDED = "delta.rowTrackingSuspended"

_KEPT_BY_THE_TABLE = (
    "delta.columnMapping.maxColumnId", "delta.columnMapping.hasDroppedOrRenamed",
    "delta.inCommitTimestampEnablementVersion",
    "delta.inCommitTimestampEnablementTimestamp", "delta.rowTracking.materializedRowIdColumnName",
    "delta.rowTracking.materializedRowCommitVersionColumnName",
    "delta.requireCheckpointProtectionBeforeVersion",
)
_ELSEWHERE = {
    "location": "a table is where its files are; copy them, or make a clone",
    "provider": "a Delta table stays one",
    "clusteringcolumns": "cluster_by([...]) sets the clustering columns",
    "delta.feature.clustering": "cluster_by([...]) adds the feature with its columns",
}


@active.command
def set_properties(log: DeltaLog, values: Mapping[str, Any]) -> CommandResult:
    """Set table properties; ``delta.`` names in any case.

    The protocol is raised if a property needs it. ``delta.columnMapping.mode`` can only change from none to
    name. ``delta.enableRowTracking`` on a table with rows first commits their ids (ROW TRACKING BACKFILL, in
    several versions for a large table). ``delta.feature.<name> = supported`` adds a feature; ``comment`` is
    the description.

    Args:
        values: name to value; values are text, numbers or bools.

    Returns:
        A result with the version that has the properties.

    Raises:
        InvalidArgument: an invalid value, or a property that cannot be set like this.
        UnsupportedProtocol: a feature that this library cannot write.

    >>> import deltanb as dn
    >>> table = dn.create("ducks", {"name": ["Donald"]})
    >>> table.set_properties({"delta.checkpointInterval": 20, "comment": "all of them"}).version
    1
    >>> table.properties, table.metadata.description
    ({'delta.checkpointInterval': '20'}, 'all of them')
    """
    if not isinstance(values, Mapping) or not values:
        raise InvalidArgument(
            f"set_properties takes a dict with one property at least, found {shown(values)}; write it like "
            'set_properties({"delta.enableChangeDataFeed": True})')
    texts = {properties.spelled(key): properties.as_text(key, value) for key, value in values.items()}
    txn = begin(log)
    configuration = {key: value for key, value in texts.items() if key != COMMENT}
    _refuse_special(configuration, txn.table)
    properties.validate(configuration)
    _check_row_tracking({**txn.metadata.configuration, **configuration}, txn.table)
    tags = {}
    if properties.get(configuration, ROW_TRACKING) and not properties.get(
            txn.metadata.configuration, ROW_TRACKING):
        txn = backfill(log, before=lambda fresh: _changed(fresh.metadata, texts, fresh.table))
        if len(texts) == 1:
            tags["rowTrackingEnablementOnly"] = "true"
    return commit_metadata(txn, _changed(txn.metadata, texts, txn.table), Operation(
        "SET TBLPROPERTIES", {"properties": texts}, tags=tags))


def _changed(metadata: Metadata, texts: Mapping[str, str], table: str) -> Metadata:
    configuration = {key: value for key, value in texts.items() if key != COMMENT}
    after = {**metadata.configuration, **configuration}
    changed = metadata.replace(configuration=after)
    if COMMENT in texts:
        changed = changed.replace(description=texts[COMMENT])
    if properties.get(after, ROW_TRACKING):
        changed = with_materialized_names(changed)
    return _with_mapping(metadata, changed, table)


def _with_mapping(before: Metadata, after: Metadata, table: str) -> Metadata:
    """Enable column mapping: ids for all columns, with the names in the files."""
    old = properties.get(before.configuration, column_mapping.MODE_KEY)
    new = properties.get(after.configuration, column_mapping.MODE_KEY)
    if old == new:
        return after
    if (old, new) != ("none", "name"):
        raise InvalidArgument(
            f"table {table}: {column_mapping.MODE_KEY} cannot go from {old} to {new}: the files there "
            "are written for the mode they have. Only none to name is possible; for another mode create a "
            "new table from this one's rows", property=column_mapping.MODE_KEY)
    schema = before.schema
    mapped = [path for path, field in walk(schema) if column_mapping.ID_KEY in field.metadata
              or column_mapping.NAME_KEY in field.metadata]
    if mapped:
        raise InvalidArgument(
            f"table {table}: column mapping cannot begin: column {'.'.join(mapped[0])} has a mapping in its "
            "metadata already, that of another table by mistake. Write the rows to a new table",
            column=".".join(mapped[0]))
    schema, last = column_mapping.assign(schema, keep_names=True)
    return after.replace(schema_string=schema.to_json(), configuration={
        **after.configuration, column_mapping.MAX_ID_KEY: str(last)})


def _refuse_special(texts: Mapping[str, str], table: str) -> None:
    for key in texts:
        lower = key.lower()
        if lower.startswith(CHECK_PREFIX):
            raise InvalidArgument(
                f"table {table}: {key} is a constraint; add_constraint(name, sql) checks the rows that are "
                "there, drop_constraint(name) takes it away", property=key)
        if lower in _ELSEWHERE:
            raise InvalidArgument(
                f"table {table}: {key} is not set as a property: {_ELSEWHERE[lower]}", property=key)
        if key in _KEPT_BY_THE_TABLE:
            raise InvalidArgument(
                f"table {table}: {key} is maintained by the table and cannot be set by hand", property=key)


def _check_row_tracking(configuration: Mapping[str, str], table: str) -> None:
    if properties.get(configuration, ROW_TRACKING) and properties.get(configuration, SUSPENDED):
        raise InvalidArgument(
            f"table {table}: {ROW_TRACKING} and {SUSPENDED} contradict each other; set one of them to false",
            property=ROW_TRACKING)


@active.command
def unset_properties(
    log: DeltaLog, names: str | Sequence[str], if_exists: bool = False
) -> CommandResult:
    """Unset table properties; their defaults apply again.

    Args:
        names: one name or several; ``comment`` is the description.
        if_exists: ignore those that are not set.

    Returns:
        The version committed.

    Raises:
        InvalidArgument: a property that is not set, or cannot be unset like this.
    """
    named = [properties.spelled(name) for name in ([names] if isinstance(names, str) else names)]
    if not named:
        raise InvalidArgument("unset_properties: no property is named")
    txn = begin(log)
    metadata = txn.metadata
    for name in named:
        if name.startswith(FEATURE_PREFIX):
            feature = name.removeprefix(FEATURE_PREFIX)
            raise InvalidArgument(
                f'table {txn.table}: {name} is a table feature; drop_feature("{feature}") takes it away',
                property=name)
        is_set = metadata.description is not None if name == COMMENT else name in metadata.configuration
        if not is_set and not if_exists:
            raise InvalidArgument(
                f"table {txn.table}: property {name} is not set; pass if_exists=True if that does not matter",
                property=name)
    _refuse_special(dict.fromkeys(named, ""), txn.table)
    configuration = {key: value for key, value in metadata.configuration.items() if key not in named}
    changed = metadata.replace(configuration=configuration)
    if COMMENT in named:
        changed = changed.replace(description=None)
    return commit_metadata(txn, _with_mapping(metadata, changed, txn.table), Operation(
        "UNSET TBLPROPERTIES", {"properties": named, "ifExists": if_exists}))


@active.command
def set_description(log: DeltaLog, description: str | None) -> CommandResult:
    """Set the table's description; None removes it."""
    if description is None:
        return unset_properties(log, COMMENT, if_exists=True)
    return set_properties(log, {COMMENT: description})


@active.command
def set_name(log: DeltaLog, name: str | None) -> CommandResult:
    """Set the table's name in its metadata; the path stays.

    Raises:
        InvalidArgument: not text.
    """
    if name is not None and (not isinstance(name, str) or not name):
        raise InvalidArgument(f"a table's name is text, found {name!r}")
    txn = begin(log)
    return commit_metadata(txn, txn.metadata.replace(name=name), Operation(
        "UPDATE TABLE METADATA", {"name": name}))
