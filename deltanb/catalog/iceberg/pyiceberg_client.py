"""PyIceberg beside a catalog of this library: its tables, and its transactions committed together.

What lives here: a PyIceberg catalog of one table, whose commits call a function (:func:`table`); the changes
in a PyIceberg transaction (:func:`changes_of`); its errors as this library's.
What it does not know: databases, commits.

PyIceberg has no public call for a commit of several tables. A transaction holds its changes in ``_updates``
and ``_requirements``; if these do not have the known form, it is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from deltanb.catalog.iceberg.commit import Change, IcebergTable
from deltanb.catalog.iceberg.metadata.fields import Json
from deltanb.catalog.store.names import TableName
from deltanb.errors import (
    CommitFailed,
    DeltaError,
    InvalidArgument,
    MissingDependency,
    SchemaMismatch,
    StorageError,
)
from deltanb.text.safe_text import redacted, shown

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["changes_of", "delete_new_files", "errors", "finish", "fitted", "table"]


def _pyiceberg() -> Any:
    try:
        import pyiceberg.catalog.noop
        import pyiceberg.io
        import pyiceberg.table
    except ImportError:
        raise MissingDependency(
            "the rows of Iceberg tables are read and written by PyIceberg, which is not installed: "
            "pip install 'deltanb[catalog,iceberg]'", extra="iceberg") from None
    return pyiceberg


def table(
    name: TableName, read: Callable[[], IcebergTable],
    commit: Callable[[list[Json], list[Json]], IcebergTable], io: Mapping[str, str],
) -> Any:
    """A PyIceberg ``Table`` that reads and commits through functions.

    ``commit`` gets requirements and updates as the REST catalog's JSON; ``io`` are the properties for
    PyIceberg's access to the files.
    """
    pyiceberg = _pyiceberg()
    from pyiceberg.exceptions import CommitFailedException
    from pyiceberg.table.metadata import TableMetadataUtil

    def parsed(table_: IcebergTable) -> Any:
        return TableMetadataUtil.parse_raw(json.dumps(table_.metadata))

    class OneTable(pyiceberg.catalog.noop.NoopCatalog):  # type: ignore[misc, name-defined]
        """A catalog that has one table."""

        def load_table(self, identifier: Any) -> Any:
            response = read()
            return pyiceberg.table.Table(
                identifier=(*name.namespace, name.name), metadata=parsed(response),
                metadata_location=response.metadata_location or "", catalog=self,
                io=pyiceberg.io.load_file_io(dict(io), response.metadata["location"]))

        def commit_table(self, table: Any, requirements: Any, updates: Any) -> Any:
            try:
                done = commit(*map(_json, (requirements, updates)))
            except CommitFailed as error:
                raise CommitFailedException(str(error)) from error
            return pyiceberg.table.CommitTableResponse.model_validate(
                {"metadata": parsed(done), "metadata-location": done.metadata_location or ""})

    return OneTable("deltanb").load_table(name)


def _json(models: Sequence[Any]) -> list[Json]:
    """PyIceberg's values as the JSON of a request."""
    return [json.loads(model.model_dump_json(by_alias=True, exclude_none=True)) | _explicit_null(model)
            for model in models]


def _explicit_null(model: Any) -> Json:
    """The null that means a branch does not exist yet, which must not be left out."""
    is_absent = getattr(model, "type", None) == "assert-ref-snapshot-id" and model.snapshot_id is None
    return {"snapshot-id": None} if is_absent else {}


@contextmanager
def errors(name: str) -> Iterator[None]:
    """PyIceberg's errors as errors of this library."""
    try:
        yield
    except DeltaError:
        raise
    except Exception as error:
        if isinstance(error.__cause__, DeltaError):
            raise error.__cause__ from None
        if type(error).__module__.startswith("pyparsing"):  # which lists all that it would have understood
            raise InvalidArgument(
                f"PyIceberg cannot parse the condition {shown(getattr(error, 'pstr', ''))} for {name}; "
                "write it like \"id = 1 and what != 'click'\"") from error
        if isinstance(error, OSError):
            raise StorageError(
                f"PyIceberg cannot reach files of {name}: {redacted(str(error)):.600}. Its credentials are "
                "the storage_options of the warehouse, or those of the environment (AWS_ACCESS_KEY_ID, ...)",
                errno=error.errno) from None
        theirs = type(error).__module__.startswith("pyiceberg.")
        if not theirs and not isinstance(error, ValueError | TypeError | NotImplementedError):
            raise
        kind = SchemaMismatch if "schema" in str(error).lower() else InvalidArgument
        raise kind(f"PyIceberg refuses it for {name}: {error}") from error


def fitted(table: Any, data: pa.Table, name: str) -> pa.Table:
    """Rows converted to the types of a table's columns if that is lossless: an Iceberg ``int`` has 32 bits.

    Raises:
        SchemaMismatch: values of a column do not fit the table's type.
    """
    import pyarrow as pa

    from deltanb.engines.arrow import enforce

    schema = table.schema().as_arrow()
    if set(data.column_names) != set(schema.names):
        return data  # PyIceberg says what does not fit
    columns = []
    for field in schema:
        column = data[field.name]
        try:
            column = column.cast(field.type)
        except pa.ArrowException as error:
            if enforce.counts_nanoseconds(column.type, field.type):
                column = enforce.in_microseconds(field.name, column).cast(field.type)
            elif not pa.types.is_timestamp(column.type):  # PyIceberg says what it makes of zones
                raise SchemaMismatch(
                    f"the data does not fit the table {name}: the column {field.name} is {column.type} in "
                    f"the data, {field.type} in the table ({error}); cast it before it is written") from error
        columns.append(column)
    return pa.table(columns, schema=pa.schema(
        [field.with_type(column.type) for field, column in zip(schema, columns, strict=True)]))


def changes_of(transactions: Sequence[Any]) -> list[Change]:
    """The changes in PyIceberg's transactions, each on another table.

    Raises:
        InvalidArgument: not an open transaction of PyIceberg, or one of a version with another form.
    """
    pyiceberg = _pyiceberg()
    changes = []
    for at, txn in enumerate(transactions):
        if not isinstance(txn, pyiceberg.table.Transaction):
            raise InvalidArgument(
                f"commit_iceberg takes transactions of PyIceberg (table.transaction()), found "
                f"{type(txn).__name__} at place {at}")
        updates, requirements = getattr(txn, "_updates", None), getattr(txn, "_requirements", None)
        if not isinstance(updates, tuple) or not isinstance(requirements, tuple):
            raise InvalidArgument(
                "this version of PyIceberg keeps the updates of a transaction in a way not known here; "
                "install pyiceberg>=0.12,<0.13")
        *space, last = txn._table.name()
        uuid = {"type": "assert-table-uuid", "uuid": str(txn.table_metadata.table_uuid)}
        name = TableName.of((tuple(space), last))
        changes.append(Change(name, [uuid, *_json(requirements)], _json(updates)))
    return changes


def finish(transactions: Sequence[Any]) -> None:
    """Mark PyIceberg's transactions as committed."""
    for transaction in transactions:
        transaction._updates, transaction._requirements = (), ()
        if hasattr(transaction, "_snapshot_producers"):
            transaction._snapshot_producers = []
        with suppress(NotImplementedError):
            transaction._table.refresh()


def delete_new_files(before: IcebergTable, after: IcebergTable, properties: Mapping[str, str]) -> None:
    """Delete the files of snapshots that only ``after`` has, which nobody else knows."""
    from pyiceberg.table.metadata import TableMetadataUtil

    known = {snapshot["snapshot-id"] for snapshot in before.metadata.get("snapshots", [])}
    metadata = TableMetadataUtil.parse_raw(json.dumps(after.metadata))
    io = _pyiceberg().io.load_file_io(dict(properties), after.metadata["location"])
    new = [s for s in metadata.snapshots if s.snapshot_id not in known]
    ids = {s.snapshot_id for s in new}
    gone: list[str] = []
    for snapshot in new:
        with suppress(OSError):
            for manifest in snapshot.manifests(io):
                if manifest.added_snapshot_id in ids:
                    # An entry of a file that goes carries the snapshot in which it goes: it is older.
                    gone += [entry.data_file.file_path for entry in manifest.fetch_manifest_entry(io, True)
                             if entry.snapshot_id in ids]
                    gone.append(manifest.manifest_path)
        gone.append(snapshot.manifest_list)
    for path in dict.fromkeys(gone):
        with suppress(OSError):
            io.delete(path)
