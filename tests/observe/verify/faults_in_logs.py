"""Faults in a log: commits, what they do to files, the definition, values, and who passed whom.

What lives here: one function for each fault; it makes a table with our commands, or takes the history that is
there, breaks it and returns the versions that the finding has.
What it does not know: what finds them.
"""

from __future__ import annotations

import datetime as dt
import json
import os

import deltanb as dn
from tests.observe.verify.planting import Broken, Line, Versions, fault

P = "possible"
CHANGE = {"path": "_change_data/x.parquet", "partitionValues": {}, "size": 1, "dataChange": False}


def appended(b: Broken, **properties: str) -> None:
    """Two appends, the last one of ids 5 and 6."""
    table = b.create(**properties)
    table.append({"id": [5], "p": ["c"]})
    table.append({"id": [6], "p": ["c"]})


def deleted(b: Broken, **properties: str) -> None:
    """An append and a DELETE that rewrites the first file."""
    table = b.create(**properties)
    table.append({"id": [5], "p": ["c"]})
    table.delete("id = 1")


def vectors(b: Broken, **properties: str) -> None:
    """Two DELETEs by vector of the same file, in versions 1 and 2."""
    table = b.create(enableDeletionVectors="true", **properties)
    table.delete("id = 1")
    table.delete("id = 2")


def first_removal(b: Broken) -> tuple[int, Line]:
    """The first remove of whatever history there is."""
    return next(b.actions("remove"))


# -- commits --------------------------------------------------------------------------------------------


@fault("version-missing")
def a_commit_deleted(b: Broken) -> Versions:
    appended(b)
    b.write(1, b.lines(1))  # which takes the checksums away
    b.file(1).unlink()
    return 1


@fault("commit-unreadable", anywhere=True, along="removed-unknown row-ids-overlap conflict-passed")
def a_commit_cut_off(b: Broken) -> Versions:
    b.write(1, b.lines(1))
    b.file(1).write_bytes(b.file(1).read_bytes()[:-20])
    return 1


@fault("commit-unreadable", along="")
def an_empty_commit(b: Broken) -> Versions:
    appended(b)
    return b.write(1, [])


@fault("first-commit-incomplete", anywhere=True)
def no_protocol(b: Broken) -> Versions:
    return b.drop(0, "protocol")


@fault("first-commit-incomplete", anywhere=True)
def no_metadata(b: Broken) -> Versions:
    return b.drop(0, "metaData")


@fault("action-unknown", P, anywhere=True)
def an_action_of_tomorrow(b: Broken) -> Versions:
    return b.append({"teleport": {"to": "moon"}})


@fault("action-twice", anywhere=True)
def two_definitions(b: Broken) -> Versions:
    return b.write(0, [*b.lines(0), *(line for line in b.lines(0) if "metaData" in line)])


@fault("action-twice", anywhere=True)
def removed_twice_in_one(b: Broken) -> Versions:
    version, remove = first_removal(b)
    return b.write(version, [*b.lines(version), {"remove": remove}])


@fault("action-twice", anywhere=True)
def an_application_twice(b: Broken) -> Versions:
    return b.append({"txn": {"appId": "etl", "version": 1}}, {"txn": {"appId": "etl", "version": 2}})


@fault("action-twice")
def a_domain_twice(b: Broken) -> Versions:
    b.create(feature__domainMetadata="supported")
    domain = {"domainMetadata": {"domain": "ours", "configuration": "{}", "removed": False}}
    return b.append(domain, domain)


@fault("staged-commit-differs", P)
def another_commit_staged(b: Broken) -> Versions:
    appended(b)
    folder = b.path / "_delta_log" / "_staged_commits"
    folder.mkdir()
    name = f"{1:020}.3a0d65cd-4056-49b8-937b-95f9e3ee90e5.json"
    (folder / name).write_bytes(b.file(1).read_bytes() + b.file(2).read_bytes())
    return 1


@fault("commit-time-missing")
def no_time(b: Broken) -> Versions:
    appended(b, enableInCommitTimestamps="true")
    return b.edit(1, "commitInfo", lambda info: info.pop("inCommitTimestamp"))


@fault("commit-time-falls")
def a_time_before(b: Broken) -> Versions:
    appended(b, enableInCommitTimestamps="true")
    return 0, b.set(1, "commitInfo", inCommitTimestamp=1_000)


@fault("file-time-falls", P, anywhere=True)
def a_file_from_a_backup(b: Broken) -> Versions:
    os.utime(b.file(1), (1_000_000, 1_000_000))
    return 0, 1


@fault("read-version-ahead", anywhere=True)
def read_the_future(b: Broken) -> Versions:
    return b.append({"txn": {"appId": "etl", "version": 1}}, readVersion=99)


@fault("blind-append-claim", anywhere=True)
def a_blind_delete(b: Broken) -> Versions:
    version, _ = first_removal(b)
    return b.set(version, "commitInfo", isBlindAppend=True)


@fault("metrics-differ", P)
def files_miscounted(b: Broken) -> Versions:
    appended(b)
    return b.set(2, "commitInfo", operationMetrics={"numFiles": "7", "numOutputRows": "1"})


@fault("metrics-differ", P)
def a_file_lost_on_the_way(b: Broken) -> Versions:
    b.create(partition_by="p").append({"id": [5, 6], "p": ["c", "d"]})
    lines = b.lines(1)
    return b.write(1, lines[:-1])


@fault("operation-unknown", P, anywhere=True)
def an_operation_of_tomorrow(b: Broken) -> Versions:
    return b.append({"txn": {"appId": "etl", "version": 1}}, operation="TELEPORT")


# -- files ----------------------------------------------------------------------------------------------


@fault("added-while-live", anywhere=True)
def a_file_added_again(b: Broken) -> Versions:
    version, add = list(b.actions("add"))[-1]
    return version, b.append({"add": {**add, "dataChange": True}})


@fault("added-twice", anywhere=True)
def a_file_added_twice(b: Broken) -> Versions:
    version, add = next(b.actions("add"))
    return b.write(version, [*b.lines(version), {"add": add}])


@fault("removed-twice", anywhere=True)
def two_rewrote_one_file(b: Broken) -> Versions:
    version, remove = first_removal(b)
    return version, b.append({"remove": remove}, operation="DELETE")


@fault("removed-unknown", anywhere=True)
def a_file_of_another_table(b: Broken) -> Versions:
    _, remove = first_removal(b)
    return b.append({"remove": {**remove, "path": "part-00000-of-another-table.parquet"}}, operation="DELETE")


@fault("removed-unknown")
def removed_with_an_old_vector(b: Broken) -> Versions:
    vectors(b)
    _, remove = list(b.actions("remove"))[-1]
    vector = {**remove["deletionVector"], "offset": 99}
    return b.append({"remove": {**remove, "deletionVector": vector}}, operation="DELETE")


@fault("added-and-removed", anywhere=True)
def neither_there_nor_gone(b: Broken) -> Versions:
    version, remove = first_removal(b)
    add = next(add for _, add in b.actions("add") if add["path"] == remove["path"])
    return b.write(version, [*b.lines(version), {"add": add}])


@fault("brought-back", P, anywhere=True)
def an_old_file_again(b: Broken) -> Versions:
    version, remove = first_removal(b)
    add = next(add for _, add in b.actions("add") if add["path"] == remove["path"])
    return version, b.append({"add": add})


@fault("file-live-twice")
def a_vector_without_a_remove(b: Broken) -> Versions:
    vectors(b)
    return 1, b.drop(2, "remove")


@fault("deletions-lost")
def a_vector_overwritten(b: Broken) -> Versions:
    vectors(b)
    b.edit(1, "add", lambda add: add["deletionVector"].update(cardinality=3))
    b.edit(2, "remove", lambda remove: remove["deletionVector"].update(cardinality=3))
    return 1, 2


@fault("deletions-lost", along="brought-back")
def a_vector_dropped(b: Broken) -> Versions:
    vectors(b)
    return 1, b.edit(2, "add", lambda add: add.pop("deletionVector"))


@fault("vector-too-large")
def more_deleted_than_there(b: Broken) -> Versions:
    vectors(b)
    return b.edit(2, "add", lambda add: add["deletionVector"].update(cardinality=99))


@fault("vector-invalid")
def a_vector_of_no_kind(b: Broken) -> Versions:
    vectors(b)
    return b.edit(2, "add", lambda add: add["deletionVector"].update(storageType="q"))


@fault("partition-columns-differ")
def no_partition_values(b: Broken) -> Versions:
    b.create(partition_by="p").append({"id": [5], "p": ["c"]})
    return b.set(1, "add", partitionValues={})


@fault("partition-columns-differ")
def values_of_another_column(b: Broken) -> Versions:
    b.create(partition_by="p").append({"id": [5], "p": ["c"]})
    return b.set(1, "add", partitionValues={"q": "c"})


@fault("partition-value-invalid")
def a_partition_of_no_number(b: Broken) -> Versions:
    b.create(partition_by="id").append({"id": [5], "p": ["c"]})
    return b.set(1, "add", partitionValues={"id": "five"})


@fault("partition-value-invalid")
def a_partition_of_no_day(b: Broken) -> Versions:
    b.create("day date, n long", partition_by="day").append({"day": [dt.date(2024, 2, 29)], "n": [1]})
    return b.set(1, "add", partitionValues={"day": "2023-02-29"})


@fault("size-invalid", anywhere=True)
def less_than_nothing(b: Broken) -> Versions:
    return b.set(1, "add", size=-1)


@fault("append-only-broken")
def deleted_all_the_same(b: Broken) -> Versions:
    deleted(b)
    b.configure(0, appendOnly="true")
    return 2


@fault("rearranged-rows-differ", along="statistics-count")
def rows_lost_by_optimize(b: Broken) -> Versions:
    appended(b)
    dn.open(b.path).optimize()
    return b.stats(3, numRecords=5)


@fault("change-files-differ", P)
def changes_without_a_change(b: Broken) -> Versions:
    appended(b, enableChangeDataFeed="true")
    return b.append({"cdc": CHANGE}, operation="OPTIMIZE")


# -- the table's definition -----------------------------------------------------------------------------


def redefined(b: Broken) -> None:
    """Two columns more, each in a version of its own."""
    table = b.create()
    table.add_columns("q long")
    table.add_columns("r long")


def mapped(b: Broken) -> None:
    """A table whose columns are mapped by name, and a column more."""
    b.create(columnMapping__mode="name").add_columns("q long")


@fault("schema-invalid", anywhere=True)
def half_a_schema(b: Broken) -> Versions:
    return b.edit(0, "metaData", lambda metadata: metadata.update(schemaString=metadata["schemaString"][:20]))


@fault("column-twice")
def one_name_in_two_cases(b: Broken) -> Versions:
    redefined(b)
    return b.schema(2, lambda fields: fields[3].update(name="Q"))


@fault("partition-column-unknown", along="partition-columns-differ")
def partitioned_by_nothing(b: Broken) -> Versions:
    redefined(b)
    return b.set(2, "metaData", partitionColumns=["nobody"])


@fault("mapping-twice", along="mapping-moved")
def two_columns_of_one_id(b: Broken) -> Versions:
    mapped(b)
    return b.schema(1, lambda fields: fields[2]["metadata"].update({"delta.columnMapping.id": 2}))


@fault("mapping-twice")
def two_columns_of_one_name(b: Broken) -> Versions:
    mapped(b)
    name = "delta.columnMapping.physicalName"
    return b.schema(1, lambda fields: fields[2]["metadata"].update({name: fields[0]["metadata"][name]}))


@fault("mapping-id-too-large")
def an_id_beyond_the_largest(b: Broken) -> Versions:
    mapped(b)
    return b.schema(1, lambda fields: fields[2]["metadata"].update({"delta.columnMapping.id": 9}))


@fault("mapping-moved")
def another_name_in_files(b: Broken) -> Versions:
    mapped(b)
    return 0, b.schema(1, lambda fields: fields[0]["metadata"].update(
        {"delta.columnMapping.physicalName": "elsewhere"}))


@fault("table-id-changed", P)
def the_log_of_another_table(b: Broken) -> Versions:
    redefined(b)
    return 1, b.set(2, "metaData", id="2c2bb53d-e51f-4ab4-a4c6-3a3a4a4d4c56")


@fault("metadata-went-back", P, along="conflict-passed")
def a_column_lost_on_the_way(b: Broken) -> Versions:
    redefined(b)
    (metadata,) = [action for version, action in b.actions("metaData") if version == 1]
    return 1, b.append({"metaData": metadata}, operation="SET TBLPROPERTIES", readVersion=1)


@fault("protocol-fell")
def a_feature_forgotten(b: Broken) -> Versions:
    appended(b, feature__domainMetadata="supported")
    protocol = {"minReaderVersion": 1, "minWriterVersion": 2}
    return 2, b.append({"protocol": protocol}, operation="ADD CONSTRAINT")


@fault("protocol-invalid", anywhere=True, along="protocol-fell")
def features_without_a_list(b: Broken) -> Versions:
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7}
    return b.append({"protocol": protocol}, operation="UPGRADE PROTOCOL")


@fault("feature-unnamed", P)
def a_constraint_that_nobody_checks(b: Broken) -> Versions:
    appended(b)
    b.set(0, "protocol", minReaderVersion=1, minWriterVersion=1)
    return b.configure(0, constraints__positive="id > 0")


@fault("feature-unnamed")
def a_vector_that_nobody_reads(b: Broken) -> Versions:
    vectors(b)
    b.edit(0, "metaData", lambda metadata: metadata["configuration"].pop("delta.enableDeletionVectors"))
    b.write(0, [line if "protocol" not in line else
                {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}} for line in b.lines(0)])
    return 1


@fault("feature-unnamed")
def a_domain_that_nobody_knows(b: Broken) -> Versions:
    appended(b)
    return b.append({"domainMetadata": {"domain": "ours", "configuration": "{}", "removed": False}})


@fault("feature-unnamed")
def row_ids_that_nobody_gives(b: Broken) -> Versions:
    appended(b)
    return b.set(2, "add", baseRowId=0, defaultRowCommitVersion=2)


@fault("feature-unnamed")
def changes_that_nobody_writes(b: Broken) -> Versions:
    deleted(b, feature__domainMetadata="supported")
    return b.write(2, [*b.lines(2), {"cdc": CHANGE}])


@fault("application-version-fell", P)
def a_batch_again(b: Broken) -> Versions:
    b.create().append({"id": [5], "p": ["c"]}, txn=("etl", 7))
    return b.append({"txn": {"appId": "etl", "version": 6}})


@fault("domain-unknown", P)
def a_domain_ended_before_it_began(b: Broken) -> Versions:
    b.create(feature__domainMetadata="supported")
    return b.append({"domainMetadata": {"domain": "ours", "configuration": "", "removed": True}})


@fault("property-invalid", P, anywhere=True)
def a_property_of_no_value(b: Broken) -> Versions:
    return b.configure(0, enableDeletionVectors="perhaps", checkpointInterval="often")


@fault("property-invalid", P)
def columns_mapped_in_no_way(b: Broken) -> Versions:
    mapped(b)
    return b.configure(1, columnMapping__mode="")


# -- ids and values -------------------------------------------------------------------------------------


@fault("row-id-missing")
def no_row_ids(b: Broken) -> Versions:
    appended(b, enableRowTracking="true")
    return b.edit(2, "add", lambda add: add.pop("baseRowId"))


@fault("row-ids-overlap")
def row_ids_given_again(b: Broken) -> Versions:
    appended(b, enableRowTracking="true")
    return b.set(2, "add", baseRowId=0)


@fault("row-id-beyond-mark")
def a_mark_too_low(b: Broken) -> Versions:
    appended(b, enableRowTracking="true")
    return b.set(2, "domainMetadata", configuration='{"rowIdHighWaterMark":4}')


@fault("row-mark-fell", along="row-id-beyond-mark")
def a_mark_before(b: Broken) -> Versions:
    appended(b, enableRowTracking="true")
    return 1, b.set(2, "domainMetadata", configuration='{"rowIdHighWaterMark":3}')


@fault("row-commit-version")
def written_by_a_later_version(b: Broken) -> Versions:
    appended(b, enableRowTracking="true")
    return b.set(2, "add", defaultRowCommitVersion=3)


IDENTITY = "id BIGINT GENERATED ALWAYS AS IDENTITY, n BIGINT"


def counted(b: Broken) -> None:
    """Two appends to a table with an identity column: each moves the mark in the table's schema."""
    table = b.create(IDENTITY)
    table.append({"n": [1, 2]})
    table.append({"n": [3]})


@fault("identity-beyond-mark")
def a_value_beyond_the_mark(b: Broken) -> Versions:
    counted(b)
    return b.stats(2, maxValues={"id": 9, "n": 3})


@fault("identity-mark-fell", along="identity-beyond-mark")
def a_mark_of_identity_before(b: Broken) -> Versions:
    counted(b)
    return 1, b.schema(2, lambda fields: fields[0]["metadata"].update({"delta.identity.highWaterMark": 1}))


@fault("null-in-not-null")
def nothing_where_something_must_be(b: Broken) -> Versions:
    b.create("id long NOT NULL").append({"id": [1]})
    return b.stats(1, nullCount={"id": 1})


@fault("null-in-not-null")
def no_partition_where_one_must_be(b: Broken) -> Versions:
    b.create("id long, p string NOT NULL", partition_by="p").append({"id": [1], "p": ["a"]})
    return b.set(1, "add", partitionValues={"p": None})


@fault("statistics-invalid", anywhere=True)
def half_the_statistics(b: Broken) -> Versions:
    return b.set(1, "add", stats='{"numRecords":')


@fault("statistics-range")
def least_above_greatest(b: Broken) -> Versions:
    appended(b)
    return b.stats(1, minValues={"id": 9})


@fault("statistics-count", anywhere=True)
def more_nulls_than_rows(b: Broken) -> Versions:
    return b.stats(1, nullCount={"id": 99})


# -- who passed whom ------------------------------------------------------------------------------------


@fault("kept-under-overwrite", P, along="conflict-passed")
def an_append_under_an_overwrite(b: Broken) -> Versions:
    table = b.create()
    table.append({"id": [5], "p": ["c"]})
    table.overwrite({"id": [6], "p": ["c"]})
    b.write(2, [line for line in b.lines(2) if line.get("remove", {}).get("path") != b.data_files()[1].name])
    b.set(2, "commitInfo", readVersion=0)
    return 1, 2


@fault("conflict-passed", along="removed-twice")
def a_delete_past_a_delete(b: Broken) -> Versions:
    deleted(b)
    _, remove = first_removal(b)
    b.append({"remove": remove}, operation="DELETE", readVersion=1,
             operationParameters={"predicate": json.dumps(["id = 2"])})
    return 2, 3


@fault("conflict-passed", P)
def an_append_past_a_delete_of_its_partition(b: Broken) -> Versions:
    table = b.create(partition_by="p")
    table.append({"id": [5], "p": ["a"]})
    table.delete("p = 'a' AND id = 1")
    return 1, b.set(2, "commitInfo", readVersion=0)


@fault("conflict-passed", P)
def a_write_past_a_new_schema(b: Broken) -> Versions:
    table = b.create()
    table.add_columns("q long")
    table.append({"id": [5], "p": ["a"], "q": [1]})
    return 1, b.set(2, "commitInfo", readVersion=0)


@fault("kept-under-overwrite", along="conflict-passed removed-unknown")
def an_overwrite_that_removes_what_it_did_not_see(b: Broken) -> Versions:
    """The file that stayed is of a commit whose other file it removes: no order has both."""
    table = b.create({"id": [1], "p": ["a"]}, partition_by="p")
    table.append({"id": [5, 6], "p": ["c", "d"]})
    table.overwrite({"id": [7], "p": ["c"]})
    added = [action["path"] for version, action in b.actions("add") if version == 1]
    b.write(2, [line for line in b.lines(2) if line.get("remove", {}).get("path") != added[0]])
    b.set(2, "commitInfo", readVersion=0)
    return 1, 2


@fault("conflict-passed")
def each_empties_the_partition_of_the_other(b: Broken) -> Versions:
    """Write skew: an UPDATE of each partition moves its rows to the other, and none sees what came."""
    table = b.create(partition_by="p")
    table.update({"p": "'b'"}, "p = 'a'")
    table.restore(0)
    table.update({"p": "'a'"}, "p = 'b'")
    b.write(2, b.lines(3))
    b.file(3).unlink()
    for name in (*(b.path / "_delta_log").glob("*checkpoint*"),):
        name.unlink()
    b.set(2, "commitInfo", readVersion=0)
    return 1, 2


@fault("conflict-passed")
def properties_set_back(b: Broken) -> Versions:
    """Lost update: what one sets is not there after what the other sets."""
    table = b.create()
    table.set_properties({"delta.checkpointInterval": "7"})
    table.set_properties({"delta.logRetentionDuration": "interval 9 days"})
    b.edit(2, "metaData", lambda metadata: metadata["configuration"].pop("delta.checkpointInterval"))
    b.set(2, "commitInfo", readVersion=0)
    return 1, 2
