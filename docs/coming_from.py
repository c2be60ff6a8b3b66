"""What delta-rs, Delta Spark and PyIceberg call things, and what they are called here: one table of each.

What lives here: :data:`PEERS`, from which the pages ``docs/how-to/coming-from-*.md`` have their tables
(:func:`as_markdown`), and :func:`parts_of`, which says what of a name is looked up.
What it does not know: the libraries. ``tests/docs/test_coming_from.py`` looks each name up, theirs in the
installed library and ours here. What a slip is answered is in ``deltanb/text/spelling_table.py``.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Row(NamedTuple):
    """A name of theirs and the one here, each with the object that it begins with (``ROOTS`` of the test)."""

    theirs: str
    """Empty where they have nothing like it."""
    ours: str
    """Empty where there is nothing like it here."""
    note: str = ""


class Group(NamedTuple):
    """Rows under a heading."""

    title: str
    rows: tuple[Row, ...]


NOTHING = "–"

DELTA_RS = (
    Group("Open and create", (
        Row("deltalake.DeltaTable(path)", "dn.open(path)", "reads always see the newest version"),
        Row("deltalake.DeltaTable.is_deltatable(path)", "dn.DeltaTable.is_delta_table(path)"),
        Row("deltalake.DeltaTable.create(path, schema)", "dn.create(path, schema)",
            'a schema is SQL (`"id bigint NOT NULL"`), Arrow\'s or Delta\'s'),
        Row("deltalake.write_deltalake(path, data)", "dn.create(path, data)", "the first time"),
        Row("deltalake.convert_to_deltalake(path)", "dn.convert(path)"),
        Row("table.update_incremental()", "", "not needed: every read sees the newest version"),
        Row("table.load_as_version(3)", "table.as_of(3)", "another table, pinned; yours stays where it is"),
    )),
    Group("Read", (
        Row("table.to_pyarrow_table(filters=…)", "table.to_arrow(where=…)"),
        Row("table.to_pyarrow_dataset()", "table.to_dataset()"),
        Row("table.to_pandas()", "table.to_pandas()"),
        Row("table.count()", "table.count()"),
        Row("table.load_cdf(1, 5)", "table.changes(1, 5)"),
        Row("deltalake.QueryBuilder()", "dn.sql(text)", "on DuckDB or Spark"),
    )),
    Group("Write", (
        Row('deltalake.write_deltalake(path, data, mode="append")', "table.append(data)"),
        Row('deltalake.write_deltalake(path, data, mode="overwrite")', "table.overwrite(data)"),
        Row('deltalake.write_deltalake(…, predicate="day = 1")', 'table.overwrite(data, where="day = 1")'),
        Row('deltalake.write_deltalake(…, schema_mode="merge")', "table.append(data, merge_schema=True)"),
        Row("table.delete(predicate)", "table.delete(where)"),
        Row("table.update(updates=…, new_values=…)", "table.update(assignments)",
            "a text is SQL; other values are values"),
        Row("table.merge(source, predicate)", "table.merge(source, on)", "`on` may also be the key's column"),
        Row("merge.when_matched_update_all()", "merge.when_matched_update_all()", "all clauses: the same"),
        Row("merge.execute()", "merge.execute()"),
        Row("", "table.upsert(data, on)", "the usual merge in one call"),
        Row("deltalake.CommitProperties(custom_metadata=…)", "table.append(data, user_metadata=…)",
            "of every method that commits"),
        Row("deltalake.Transaction(app_id, version)", "table.append(data, txn=(app_id, version))"),
        Row("table.create_write_transaction(…)", "table.start_transaction()", "actions by hand"),
        Row("", "table.transaction()", "several statements in one commit, in a `with` block"),
    )),
    Group("The past", (
        Row("table.history()", "table.history()"),
        Row("table.version()", "table.version", "a property"),
        Row("table.restore(3)", "table.restore(3)"),
        Row("", "table.diff(3, 5)"),
        Row("", "table.timeline()"),
    )),
    Group("Upkeep", (
        Row("table.optimize.compact()", "table.optimize()"),
        Row("table.optimize.z_order(columns)", "table.optimize(zorder_by=columns)"),
        Row("table.vacuum(168, dry_run=False)", "table.vacuum(168)", "deletes, unless `dry_run=True`"),
        Row("table.create_checkpoint()", "table.log.checkpoint()"),
        Row("table.cleanup_metadata()", "table.log.clean_up()"),
        Row("table.repair()", "table.restore(version, ignore_missing_files=True)",
            "to a version before the files were lost"),
        Row("table.get_add_actions()", "table.snapshot.files", "an Arrow table"),
        Row("table.file_uris()", "table.snapshot.files", "its column `path`"),
        Row("table.generate()", "table.generate()"),
    )),
    Group("The table itself", (
        Row("table.schema()", "table.schema", "a property"),
        Row("table.metadata()", "table.metadata", "a property"),
        Row("table.protocol()", "table.protocol", "a property"),
        Row("table.table_uri", "table.path"),
        Row("table.alter.add_columns(fields)", "table.add_columns(columns)"),
        Row("table.alter.add_constraint({name: sql})", "table.add_constraint(name, sql)"),
        Row("table.alter.drop_constraint(name)", "table.drop_constraint(name)"),
        Row("table.alter.add_feature(feature)", "table.add_feature(name)"),
        Row("table.alter.set_table_properties(values)", "table.set_properties(values)"),
        Row("table.alter.set_table_name(name)", "table.set_name(name)"),
        Row("table.alter.set_table_description(text)", "table.set_description(text)"),
        Row("table.alter.drop_column_not_null(name)", "table.change_column(name, nullable=True)"),
        Row("", "table.rename_column(name, new_name)"),
        Row("", "table.drop_columns(names)"),
    )),
    Group("Errors", (
        Row("exceptions.DeltaError", "errors.DeltaError"),
        Row("exceptions.CommitFailedError", "errors.DeltaConcurrentModificationException",
            "one class for each rule; `.conflict` says who won"),
        Row("exceptions.TableNotFoundError", "errors.TableNotFound"),
        Row("exceptions.DeltaProtocolError", "errors.UnsupportedProtocol"),
        Row("exceptions.SchemaMismatchError", "errors.SchemaMismatch"),
    )),
)

DELTA_SPARK = (
    Group("Open and create", (
        Row("tables.DeltaTable.forPath(spark, path)", "dn.open(path)", "no session is needed"),
        Row("tables.DeltaTable.forName(spark, name)", "catalog.table(name)", "of a `dn.Catalog`"),
        Row("tables.DeltaTable.isDeltaTable(spark, path)", "dn.DeltaTable.is_delta_table(path)"),
        Row("tables.DeltaTable.create(spark)", "dn.create(path, schema)", "no builder: arguments"),
        Row("tables.DeltaTable.createIfNotExists(spark)", 'dn.create(path, schema, mode="ignore")'),
        Row("tables.DeltaTable.createOrReplace(spark)", 'dn.create(path, schema, mode="overwrite")'),
        Row("builder.addColumn(name, type)", "dn.create(path, schema)", 'SQL: `"id bigint NOT NULL"`'),
        Row("builder.partitionedBy(column)", "dn.create(path, schema, partition_by=column)"),
        Row("builder.clusterBy(column)", "dn.create(path, schema, cluster_by=column)"),
        Row("builder.property(key, value)", "dn.create(path, schema, properties=…)"),
        Row("tables.IdentityGenerator(start, step)", "dn.create(path, schema)",
            "SQL: `id bigint GENERATED ALWAYS AS IDENTITY`"),
        Row("tables.DeltaTable.convertToDelta(spark, …)", "dn.convert(path, partition_by)"),
    )),
    Group("Read", (
        Row("table.toDF()", "table.to_df()", "without Spark: `to_arrow()`, `to_pandas()`, `to_polars()`"),
        Row("spark.read", "table.to_df()",
            '`format("delta")` is `format("deltanb")` after `deltanb.sources.spark.source.register(spark)`'),
        Row("spark.readStream", "table.read_stream()"),
        Row("spark.sql(text)", "dn.sql(text)", "on a session: `deltanb.spark.sql(spark, text)`"),
        Row("table.alias(name)", "table.merge(source, on, target_alias=name)", "names both sides"),
    )),
    Group("Write", (
        Row("frame.write", "table.append(frame)", "or `overwrite(frame)`"),
        Row("frame.writeStream", "table.write_stream(frame, checkpoint=…)"),
        Row("table.delete(condition)", "table.delete(where)"),
        Row("table.update(condition, set)", "table.update(assignments, where)", "in this order"),
        Row("table.merge(source, condition)", "table.merge(source, on)"),
        Row("merge.whenMatchedUpdate(condition, set)", "merge.when_matched_update(set=…)"),
        Row("merge.whenMatchedUpdateAll()", "merge.when_matched_update_all()"),
        Row("merge.whenMatchedDelete()", "merge.when_matched_delete()"),
        Row("merge.whenNotMatchedInsert(values)", "merge.when_not_matched_insert(values=…)"),
        Row("merge.whenNotMatchedInsertAll()", "merge.when_not_matched_insert_all()"),
        Row("merge.whenNotMatchedBySourceUpdate(set)", "merge.when_not_matched_by_source_update(set=…)"),
        Row("merge.whenNotMatchedBySourceDelete()", "merge.when_not_matched_by_source_delete()"),
        Row("merge.withSchemaEvolution()", "merge.with_schema_evolution()"),
        Row("merge.execute()", "merge.execute()", "its result has `.metrics`"),
    )),
    Group("The past", (
        Row("table.history(10)", "table.history(10)"),
        Row("table.restoreToVersion(3)", "table.restore(3)"),
        Row("table.restoreToTimestamp(time)", "table.restore(time)"),
        Row("table.clone(path)", "table.clone(path)", "always shallow"),
        Row("table.cloneAtVersion(3, path)", "table.clone(path, 3)"),
        Row("", "table.diff(3, 5)"),
        Row("", "table.blame()"),
    )),
    Group("Upkeep", (
        Row("table.optimize()", "table.optimize()"),
        Row("optimize.where(condition)", "table.optimize(where)"),
        Row("optimize.executeCompaction()", "table.optimize()", "there is no builder"),
        Row("optimize.executeZOrderBy(columns)", "table.optimize(zorder_by=columns)"),
        Row("table.vacuum(168)", "table.vacuum(168)"),
        Row("table.generate(mode)", "table.generate(mode)"),
    )),
    Group("The table itself", (
        Row("table.detail()", "table.detail()", "a dict"),
        Row("table.upgradeTableProtocol(3, 7)", "table.upgrade_protocol(3, 7)"),
        Row("table.addFeatureSupport(name)", "table.add_feature(name)"),
        Row("table.dropFeatureSupport(name)", "table.drop_feature(name)"),
    )),
    Group("Errors: the same names, with `.conflict`", (
        Row("exceptions.DeltaConcurrentModificationException", "errors.DeltaConcurrentModificationException"),
        Row("exceptions.ConcurrentAppendException", "errors.ConcurrentAppendException"),
        Row("exceptions.ConcurrentDeleteReadException", "errors.ConcurrentDeleteReadException"),
        Row("exceptions.ConcurrentDeleteDeleteException", "errors.ConcurrentDeleteDeleteException"),
        Row("exceptions.ConcurrentTransactionException", "errors.ConcurrentTransactionException"),
        Row("exceptions.ConcurrentWriteException", "errors.ConcurrentWriteException"),
        Row("exceptions.MetadataChangedException", "errors.MetadataChangedException"),
        Row("exceptions.ProtocolChangedException", "errors.ProtocolChangedException"),
    )),
)

PYICEBERG = (
    Group("Catalog", (
        Row("pyiceberg.catalog.load_catalog(name, **settings)", "dn.Catalog(url, warehouse=…)",
            "in SQLite or PostgreSQL; over HTTP: `dn.connect(url)`"),
        Row("catalog.create_namespace(name)", "catalog.create_namespace(name)"),
        Row("catalog.create_table(name, schema)", 'catalog.create_table(name, data, format="iceberg")',
            "Delta, unless `format=` says Iceberg"),
        Row("catalog.load_table(name)", "catalog.table(name)"),
        Row("catalog.list_tables(namespace)", "catalog.list_tables(namespace)"),
        Row("catalog.rename_table(name, new)", "catalog.rename_table(name, new)"),
        Row("catalog.drop_table(name)", "catalog.drop_table(name)"),
        Row("catalog.register_table(name, location)", "catalog.register_table(name, location)"),
        Row("", "catalog.transaction()", "several tables in one commit"),
    )),
    Group("Read", (
        Row("table.scan(row_filter)", "table.to_arrow(where=…)", "no scan object: arguments"),
        Row("scan.select(columns)", "table.to_arrow(columns=…)"),
        Row("scan.to_arrow()", "table.to_arrow()"),
        Row("scan.to_arrow_batch_reader()", "table.to_batches()"),
        Row("scan.to_pandas()", "table.to_pandas()"),
        Row("scan.to_duckdb(name)", "table.to_duckdb()"),
        Row("table.to_polars()", "table.to_polars()"),
        Row("scan.plan_files()", "table.explain(where)"),
        Row("table.refresh()", "", "not needed: every read sees the newest version"),
    )),
    Group("Write", (
        Row("table.append(data)", "table.append(data)"),
        Row("table.overwrite(data, overwrite_filter)", "table.overwrite(data, where=…)"),
        Row("table.dynamic_partition_overwrite(data)",
            'table.overwrite(data, partition_overwrite="dynamic")'),
        Row("table.delete(delete_filter)", "table.delete(where)"),
        Row("table.upsert(data, join_cols)", "table.upsert(data, on)"),
        Row("table.add_files(paths)", "dn.convert(path)", "of a folder, into a table of its own"),
        Row("table.transaction()", "table.transaction()"),
        Row("txn.commit_transaction()", "table.transaction()", "commits at the end of the `with` block"),
    )),
    Group("The past", (
        Row("table.history()", "table.history()"),
        Row("table.snapshots()", "table.versions()"),
        Row("table.current_snapshot()", "table.snapshot"),
        Row("table.snapshot_by_id(id)", "table.as_of(version)"),
        Row("table.snapshot_as_of_timestamp(ms)", "table.as_of(time)"),
        Row("table.manage_snapshots()", "table.restore(version)", "to roll back; no branches, no tags"),
        Row("inspect.files()", "table.snapshot.files"),
        Row("inspect.partitions()", "table.snapshot.files"),
    )),
    Group("Upkeep", (
        Row("maintenance.expire_snapshots()", "table.vacuum()", "and `table.log.clean_up()`"),
        Row("", "table.optimize()"),
        Row("", "table.checkup()"),
    )),
    Group("The table itself", (
        Row("table.schema()", "table.schema", "a property"),
        Row("table.properties", "table.properties"),
        Row("table.location()", "table.path"),
        Row("table.spec()", "table.partition_columns"),
        Row("table.sort_order()", "table.cluster_by(columns)"),
        Row("update.add_column(path, type)", "table.add_columns(columns)"),
        Row("update.rename_column(path, new_name)", "table.rename_column(name, new_name)"),
        Row("update.delete_column(path)", "table.drop_columns(names)"),
        Row("update.update_column(path, type)", "table.change_column(name, type=…)"),
        Row("txn.set_properties(values)", "table.set_properties(values)"),
        Row("txn.remove_properties(names)", "table.unset_properties(names)"),
        Row("txn.upgrade_table_version(2)", "table.upgrade_protocol(3, 7)"),
    )),
    Group("Errors", (
        Row("exceptions.CommitFailedException", "errors.DeltaConcurrentModificationException",
            "`.conflict` says who won"),
        Row("exceptions.CommitStateUnknownException", "errors.CommitOutcomeUnknown"),
        Row("exceptions.NoSuchTableError", "errors.TableNotFound"),
        Row("exceptions.NoSuchNamespaceError", "errors.NamespaceNotFound"),
        Row("exceptions.TableAlreadyExistsError", "errors.TableAlreadyExists"),
        Row("exceptions.NamespaceNotEmptyError", "errors.NamespaceNotEmpty"),
    )),
)

PEERS: dict[str, tuple[str, tuple[Group, ...]]] = {
    "delta-rs": ("delta-rs", DELTA_RS),
    "delta-spark": ("Delta Spark", DELTA_SPARK),
    "pyiceberg": ("PyIceberg", PYICEBERG),
}
"""The end of a page's name -> what its library is called, and its table."""


def parts_of(name: str) -> list[str]:
    """What is looked up of a name, one after the other; arguments are left out.

    >>> parts_of('table.optimize.z_order(columns)'), parts_of("table.version")
    (['table', 'optimize', 'z_order'], ['table', 'version'])
    """
    return re.sub(r"\(.*", "", name).split(".")


def as_markdown(peer: str) -> str:
    """The tables of a peer's page.

    >>> print(as_markdown("delta-rs").splitlines()[2])
    | delta-rs | here | |
    """
    title, groups = PEERS[peer]
    parts = []
    for group in groups:
        lines = [f"## {group.title}", "", f"| {title} | here | |", "|---|---|---|"]
        lines += [f"| {_code(row.theirs)} | {_code(row.ours)} | {row.note} |" for row in group.rows]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _code(name: str) -> str:
    return f"`{name}`" if name else NOTHING
