"""What a blame says of known commits, by which way, and what it cannot say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import deltanb as dn
from deltanb import errors
from deltanb.log.commits import commit_name
from deltanb.log.snapshot import Snapshot
from deltanb.observe.blame import by_files
from deltanb.observe.blame.blame import FIELDS
from deltanb.options import set_options
from tests.observe.blame.histories import TABLES

ROWS = {"id": [1, 2, 3], "n": [10, 20, 30]}
IDS, FEED = TABLES["row ids"], TABLES["feed"]
KINDS = pytest.mark.parametrize("properties", TABLES.values(), ids=TABLES.keys())


def versions(blame: Any, name: str = "_version") -> dict[Any, Any]:
    return {row["id"]: row[name] for row in blame.to_arrow().to_pylist()}


def rewrite_info(table: dn.DeltaTable, version: int, keep: Any) -> dn.DeltaTable:
    """The table opened anew, with other lines in a commit and without checksums."""
    place = Path(table.path, commit_name(version))
    place.write_text("\n".join(filter(keep, place.read_text().splitlines())))
    for checksum in Path(table.path, "_delta_log").glob("*.crc"):
        checksum.unlink()
    return dn.open(table.path)


@KINDS
def test_rows_come_with_the_version_operation_writer_and_time_of_their_commit(
    properties: dict[str, Any], tmp_path: Path
) -> None:
    with set_options(user_name="ann"):
        table = dn.create(tmp_path / "t", ROWS, properties=properties)
    with set_options(user_name="ben"):
        table.update({"n": "21"}, where="id = 2")
    blame = table.blame()
    rows = blame.to_arrow()
    assert rows.column_names == ["id", "n", "_version", "_operation", "_writer", "_timestamp"]
    assert [rows.schema.field(f"_{name}").type for name in FIELDS] == list(FIELDS.values())
    assert sorted(rows.select(["id", "n", "_version", "_operation", "_writer"]).to_pylist(),
                  key=lambda row: row["id"]) == [
        {"id": 1, "n": 10, "_version": 0, "_operation": "CREATE TABLE AS SELECT", "_writer": "ann"},
        {"id": 2, "n": 21, "_version": 1, "_operation": "UPDATE", "_writer": "ben"},
        {"id": 3, "n": 30, "_version": 0, "_operation": "CREATE TABLE AS SELECT", "_writer": "ann"}]
    times = {row["_version"]: row["_timestamp"].timestamp() * 1000 for row in rows.to_pylist()}
    assert times == {entry.version: pytest.approx(entry.timestamp) for entry in table.history()}
    wrote = [(one.version, one.num_rows, one.writer) for one in blame.commits]
    assert wrote == [(1, 1, "ben"), (0, 2, "ann")]
    assert (blame.version, blame.num_unknown, blame.doubts, len(blame)) == (1, 0, (), 3)
    assert pa.table(blame).equals(rows) and blame.to_pandas().shape == (3, 6)


@KINDS
def test_a_condition_chooses_rows_and_columns_have_commits_of_their_own(
    properties: dict[str, Any], tmp_path: Path
) -> None:
    table = dn.create(tmp_path / "t", {**ROWS, "text": ["a", "b", "c"]}, properties=properties)
    table.update({"n": "n + 1"}, where="id > 1")
    table.update({"text": "'z'"}, where="id = 3")
    blame = table.blame("id > 1", columns=["N", "text"])
    assert versions(blame) == {2: 1, 3: 2}
    assert versions(blame, "_n_version") == {2: 1, 3: 1} and blame.columns == ("n", "text")
    assert versions(blame, "_text_version") == {2: 0, 3: 2}
    assert versions(table.blame(pc.field("id") == 3)) == {3: 2}
    assert versions(table.as_of(1).blame(columns="n"), "_n_version") == {1: 0, 2: 1, 3: 1}
    assert len(table.blame("id > 9")) == 0


@KINDS
def test_what_moves_rows_writes_none(properties: dict[str, Any], tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", ROWS, properties=properties)
    table.append({"id": [4], "n": [40]})
    table.delete("id = 2")
    before = versions(table.blame())
    table.optimize()
    table.optimize(zorder_by="n")
    table.analyze()
    table.set_properties({"delta.enableRowTracking": True})
    table.optimize(zorder_by="id")
    assert versions(table.blame()) == before == {1: 0, 3: 0, 4: 1}
    table.delete("id = 1")
    table.restore(2)
    assert versions(table.blame()) == before
    table.restore(0)
    assert versions(table.blame()) == {1: 0, 2: 0, 3: 0}


@KINDS
def test_rows_that_an_update_meant_are_no_copies_whatever_values_they_get(
    properties: dict[str, Any], tmp_path: Path
) -> None:
    """Each becomes what another one was."""
    table = dn.create(tmp_path / "t", {"n": [1, 2, 3]}, properties=properties)
    table.update({"n": "n + 1"}, where="n < 3")
    wrote = [(row["n"], row["_version"]) for row in table.blame().to_arrow().to_pylist()]
    assert sorted(wrote) == [(2, 1), (3, 0), (3, 1)]
    table.update({"n": "n"})
    assert {row["_version"] for row in table.blame().to_arrow().to_pylist()} == {2}
    table.append({"n": [7, 8]})
    table.overwrite({"n": [7]}, where="n > 6 AND n < 8")
    assert sorted(table.blame("n > 6").to_arrow()["_version"].to_pylist()) == [3, 4]


@KINDS
def test_an_overwrite_writes_every_row(properties: dict[str, Any], tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", ROWS, properties=properties)
    table.overwrite(ROWS)
    assert versions(table.blame()) == {1: 1, 2: 1, 3: 1}
    if not {"delta.enableChangeDataFeed", "delta.columnMapping.mode"} <= properties.keys():  # as in Delta
        dn.create(table.path, {"id": [1]}, mode="overwrite", properties=properties)
        assert versions(table.blame()) == {1: 2}


@KINDS
def test_a_clone_was_written_by_the_clone(properties: dict[str, Any], tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", ROWS, properties=properties)
    table.update({"n": "1"}, where="id = 1")
    clone = table.clone(tmp_path / "clone")
    clone.update({"n": "2"}, where="id = 2")
    assert versions(clone.blame()) == {1: 0, 2: 1, 3: 0}
    clone.optimize()
    assert versions(clone.blame()) == {1: 0, 2: 1, 3: 0}


@pytest.mark.parametrize("properties", [p for p in TABLES.values() if "delta.columnMapping.mode" in p],
                         ids=[k for k, p in TABLES.items() if "delta.columnMapping.mode" in p])
def test_renamed_dropped_and_added_columns(properties: dict[str, Any], tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", {**ROWS, "text": ["a", "b", "c"]}, properties=properties)
    table.update({"n": "11"}, where="id = 1")
    table.rename_column("n", "number")
    table.drop_columns("text")
    table.add_columns("tax long")
    table.update({"tax": "7"}, where="id = 3")
    blame = table.blame(columns=["number", "tax"])
    assert versions(blame) == {1: 1, 2: 0, 3: 5}
    assert versions(blame, "_number_version") == {1: 1, 2: 0, 3: 0}
    assert versions(blame, "_tax_version") == {1: 0, 2: 0, 3: 5}


def test_rows_that_were_there_before_they_got_ids_are_followed(tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", ROWS)
    table.update({"n": "21"}, where="id = 2")
    table.set_properties({"delta.enableRowTracking": True})
    table.append({"id": [4], "n": [40]})
    assert versions(table.blame()) == {1: 0, 2: 1, 3: 0, 4: table.version}
    assert table.blame().method == "versions", "the least sure way that was needed"
    assert table.blame("id = 4").method == "row ids"


def test_the_feed_is_named_only_where_it_was_on_all_the_way(tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", ROWS)
    table.set_properties(FEED)
    table.append({"id": [4], "n": [40]})
    table.update({"n": "41"}, where="id = 4")
    table.update({"n": "n"}, where="id = 4")
    assert versions(table.blame()) == {1: 0, 2: 0, 3: 0, 4: 4}
    assert (table.blame().method, table.blame("id = 4").method) == ("versions", "feed")


@KINDS
def test_a_merge_to_the_values_that_were_there_is_seen_by_all_that_tell_rows_apart(
    properties: dict[str, Any], tmp_path: Path
) -> None:
    """Where a file was rewritten, rows that it copied and rows that it wrote are the same."""
    table = dn.create(tmp_path / "t", ROWS, properties=properties)
    (table.merge({"id": [2], "n": [20]}, "target.id = source.id")
     .when_matched_update(set={"n": "source.n"}).execute())
    is_seen = any(name != "delta.columnMapping.mode" for name in properties)
    assert table.version == 1 and versions(table.blame()) == {1: 0, 2: int(is_seen), 3: 0}


def test_a_rewrite_without_ids_is_followed_by_values(tmp_path: Path) -> None:
    """A writer that says it did not keep ids: its commit is no evidence of who wrote a row."""
    table = dn.create(tmp_path / "t", ROWS, properties=IDS)
    table.update({"n": "21"}, where="id = 2")
    place = Path(table.path, commit_name(1))
    place.write_text(place.read_text().replace('preserved":"true"', 'preserved":"false"'))
    again = rewrite_info(table, 1, lambda line: True)
    assert versions(again.blame()) == {1: 0, 2: 1, 3: 0} and again.blame().method == "versions"


# -- what cannot be said ---------------------------------------------------------------------------------


def test_without_keys_an_update_of_rows_that_look_alike_is_in_doubt(tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", {"id": [1, 1], "n": [1, 2], "text": ["a", "a"]})
    table.update({"n": "n + 5"})
    blame = table.blame(columns=["n", "text"])
    assert set(versions(blame).values()) == {1}
    (doubt,) = blame.doubts
    assert doubt.num_rows == 2 and "keys=[…]" in doubt.reason and not any(blame.is_certain.to_pylist())
    with pytest.raises(errors.InvalidArgument, match="do not tell the rows of version"):
        table.blame(columns="n", keys="id")


@pytest.mark.parametrize("properties", [{}, FEED], ids=["plain", "feed"])
def test_vacuumed_files_leave_rows_open(properties: dict[str, Any], tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", ROWS, properties=properties)
    table.update({"n": "21"}, where="id = 2")
    table.vacuum(0, check=False)
    table.append({"id": [4], "n": [40]})
    blame = table.blame()
    assert versions(blame) == {1: None, 2: None, 3: None, 4: 4}
    assert blame.num_unknown == 3 and "vacuumed" in blame.doubts[0].reason
    assert versions(dn.create(tmp_path / "ids", ROWS, properties=IDS).blame()) == {1: 0, 2: 0, 3: 0}


@pytest.mark.parametrize("kind", ["plain", "row ids"])
def test_a_log_that_was_cleaned(kind: str, tmp_path: Path) -> None:
    """Row ids still tell the version, and nobody can tell more of it."""
    table = dn.create(tmp_path / "t", ROWS, properties=TABLES[kind])
    table.update({"n": "21"}, where="id = 2")
    table.append({"id": [4], "n": [40]})
    table.log.checkpoint()
    for version in (0, 1):
        Path(table.path, commit_name(version)).unlink()
    blame = dn.open(table.path).blame()
    if kind == "plain":
        assert versions(blame) == {1: None, 2: None, 3: None, 4: 2}
        assert "written before v2, the first commit that the log still has" in blame.doubts[0].reason
    else:
        assert versions(blame) == {1: 0, 2: 1, 3: 0, 4: 2}
        assert {doubt.reason for doubt in blame.doubts} == {
            "the commit of v0 is no longer in the log", "the commit of v1 is no longer in the log"}


@pytest.mark.parametrize("harm", ["damaged", "missing"])
def test_a_commit_that_cannot_be_read_is_named_and_the_rest_answered(harm: str, tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", ROWS)
    table.append({"id": [4], "n": [40]})
    table.append({"id": [5], "n": [50]})
    table.log.checkpoint()
    table.append({"id": [6], "n": [60]})
    Path(table.path, commit_name(1)).write_bytes(b"{")
    if harm == "missing":
        Path(table.path, commit_name(1)).unlink()
    blame = dn.open(table.path).blame()
    assert versions(blame) == {1: 0, 2: 0, 3: 0, 4: None, 5: 2, 6: 3}
    assert any("v1 may have written them" in doubt.reason and doubt.num_rows == 4 for doubt in blame.doubts)


@pytest.mark.parametrize("info", ["none", "another operation", "text", "unknown action"])
def test_commits_that_say_little_of_themselves(info: str, tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", ROWS)
    table.update({"n": "21"}, where="id = 2")
    place = Path(table.path, commit_name(1))
    lines = [line for line in place.read_text().splitlines() if "commitInfo" not in line]
    more = {"none": [], "another operation": ['{"commitInfo":{"operation":"POLISH","engineInfo":"duck/1"}}'],
            "unknown action": ['{"duck":{"nephews":3}}'],
            "text": ['{"commitInfo":{"operation":7,"operationParameters":"all","tags":3}}']}[info]
    place.write_text("\n".join([*more, *lines]))
    blame = rewrite_info(table, 1, lambda line: True).blame(columns="n")
    assert versions(blame) == {1: 0, 2: 1, 3: 0} == versions(blame, "_n_version")
    writer = "duck" if info == "another operation" else "unknown writer"
    assert set(blame.to_arrow().filter(pc.field("_version") == 1)["_writer"].to_pylist()) == {writer}


def test_more_rows_than_are_compared_stay_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = dn.create(tmp_path / "t", ROWS)
    table.update({"n": "21"}, where="id = 2")
    table.append({"id": [4], "n": [40]})
    monkeypatch.setattr(by_files, "MAX_COMPARED", 3)
    blame = table.blame()
    assert versions(blame) == {1: None, 2: None, 3: None, 4: 2}
    assert "would have to be compared; narrow them by where" in blame.doubts[0].reason
    assert versions(table.blame("id < 3")) == {1: 0, 2: 1}, "of fewer rows fewer are read"


@pytest.mark.parametrize(("arguments", "error", "words"), [
    ({"columns": "duck"}, errors.InvalidArgument, "duck"), ({"keys": "duck"}, errors.InvalidArgument, "duck"),
    ({"columns": 3}, errors.InvalidArgument, "columns=3"),
    ({"where": "duck = 1"}, errors.InvalidPredicate, "duck")])
def test_arguments_that_are_none(arguments: Any, error: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=words):
        dn.create(tmp_path / "t", ROWS).blame(**arguments)


def test_a_column_that_is_called_as_ours_is_refused(tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", {"_version": [1], "_n_writer": [2], "n": [3]})
    with pytest.raises(errors.InvalidArgument, match="_version"):
        table.blame()
    other = dn.create(tmp_path / "o", {"_n_writer": [2], "n": [3]})
    assert other.blame().num_unknown == 0
    with pytest.raises(errors.InvalidArgument, match="_n_writer"):
        other.blame(columns="n")


def test_in_a_transaction_it_is_of_what_is_committed(tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", ROWS)
    with table.transaction() as txn:
        txn.append({"id": [4], "n": [40]})
        assert versions(txn.blame()) == {1: 0, 2: 0, 3: 0}
    assert versions(table.blame()) == {1: 0, 2: 0, 3: 0, 4: 1}


@KINDS
@pytest.mark.parametrize("how", ["dropped", "renamed"])
def test_no_value_is_older_than_the_column_where_another_had_its_name(
    how: str, properties: dict[str, Any], tmp_path: Path
) -> None:
    """The rows keep the commits that wrote them, whatever the column of that name held before."""
    table = dn.create(tmp_path / "t", {"id": [1, 2, 3], "v": [1, 2, None]},
                      properties={**properties, "delta.columnMapping.mode": "name"})
    table.update({"v": "20"}, where="id = 2")
    if how == "dropped":
        table.drop_columns("v")
    else:
        table.rename_column("v", "old")
    table.add_columns("v bigint")
    added = table.version
    table.update({"v": "2"}, where="id = 2")
    blame = table.blame(columns="v", keys="id")
    assert versions(blame, "_v_version") == {1: added, 2: added + 1, 3: added}
    assert versions(blame) == {1: 0, 2: added + 1, 3: 0}
    assert all(blame.is_certain.to_pylist())
    assert versions(table.blame("v IS NULL")) == {1: 0, 3: 0}
    if how == "renamed":
        assert versions(table.blame(columns="old", keys="id"), "_old_version") == {1: 0, 2: 1, 3: 0}


@KINDS
def test_a_column_whose_name_is_new_was_null_from_the_start(
    properties: dict[str, Any], tmp_path: Path
) -> None:
    table = dn.create(tmp_path / "t", ROWS, properties={**properties, "delta.columnMapping.mode": "name"})
    table.add_columns("v bigint")
    table.update({"v": "2"}, where="id = 2")
    assert versions(table.blame(columns="v", keys="id"), "_v_version") == {1: 0, 2: 2, 3: 0}


def test_partition_values_that_removals_lack_are_looked_up_once_for_each_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = {"id": [1, 2, 3, 4, 5, 6], "n": [0] * 6, "part": ["a", "b", "c"] * 2}
    table = dn.create(tmp_path / "t", rows, partition_by="part")
    for version in (1, 2):
        table.update({"n": f"{version}"}, where=f"id > {version}")
    known = dn.open(table.path).blame(columns="n")
    removed = []
    for version in (1, 2):
        place = Path(table.path, commit_name(version))
        lines = [json.loads(line) for line in place.read_text().splitlines()]
        removed += [line["remove"].pop("partitionValues") for line in lines if "remove" in line]
        place.write_text("\n".join(map(json.dumps, lines)))
    listed = []
    select = Snapshot.select_files

    def counted(self: Snapshot, columns: Any, *args: Any) -> pa.Table:
        if list(columns) == ["path", "partition_values"]:
            listed.append(self.version)
        return select(self, columns, *args)

    monkeypatch.setattr(Snapshot, "select_files", counted)
    blamed = dn.open(table.path).blame(columns="n")
    assert listed == [1, 0] and len(removed) == 6
    assert versions(blamed) == versions(known) == {1: 0, 2: 1, 3: 2, 4: 2, 5: 2, 6: 2}
    assert versions(blamed, "_n_version") == versions(known, "_n_version")
