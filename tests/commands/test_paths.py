"""What a path of the log means, by everything that reads, spares or deletes: one answer.

Deletes: VACUUM (full, lite, dry run), clean-up of the log, discarded files, manifests. Reads: the
readers in the process and on Spark, deletion vectors, the change data feed, and what looks whether a file
is there. Both are checked against how the operating system and ``urllib`` read the same path.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

import deltanb as dn
from deltanb.actions import AddFile
from deltanb.engines.arrow import deletion_vectors
from deltanb.errors import DataFileNotFound, InvalidArgument, InvalidTable
from deltanb.log import cleanup
from deltanb.observe.availability import versions
from deltanb.store.local import LocalStore
from deltanb.store.paths import Inside, is_same_table, place_of
from deltanb.testing import MemoryStore, TableBuilder, add, remove
from deltanb.transaction.hooks import write_manifests
from tests.examples import few

NAME = "a b%.parquet"
COMMIT = "_delta_log/00000000000000000000.json"

SPELLINGS: dict[str, Callable[[Path, str], str]] = {
    "relative": lambda root, name: quote(name),
    "dot": lambda root, name: f"./{quote(name)}",
    "empty": lambda root, name: f".//{quote(name)}",
    "up and down": lambda root, name: f"../{root.name}/{quote(name)}",
    "through a folder": lambda root, name: f"no/such/../../{quote(name)}",
    "encoded dots": lambda root, name: f"%2e%2e/{root.name}/{quote(name)}",
    "encoded slash": lambda root, name: f"..%2F{root.name}%2f{quote(name)}",
    "absolute": lambda root, name: quote(f"{root}/{name}"),
    "absolute with dots": lambda root, name: quote(f"{root}/../{root.name}/./{name}"),
    "uri": lambda root, name: "file://" + quote(f"{root}/{name}"),
    "java uri": lambda root, name: "file:" + quote(f"{root}/{name}"),
    "capital uri": lambda root, name: "FILE:" + quote(f"{root}/{name}"),
    "uri with host": lambda root, name: "file://localhost" + quote(f"{root}/{name}"),
    "uri with dots": lambda root, name: f"file:{root}/%2E%2e/{root.name}/{quote(name)}",
    "linked parent": lambda root, name: quote(f"{root.parent}/ln/{name}"),
    "linked parent uri": lambda root, name: "file:" + quote(f"{root.parent}/ln/{name}"),
    "linked folder": lambda root, name: f"here/{quote(name)}",
    "linked folder and up": lambda root, name: f"up/{root.name}/{quote(name)}",
}


def bare(path: str, root: Path) -> str:
    """The file by the operating system: decoded once, dots taken out as text, links followed."""
    text = unquote(path).replace("\0", "\ufffd")
    if text[:5].lower() == "file:":
        text = urlsplit(text.replace("#", "%23").replace("?", "%3F")).path
    return os.path.realpath(os.path.normpath(os.path.join(root, text)))


def lake(folder: Path) -> Path:
    """A folder for a table, with links to it, in it and out of it, and files around it."""
    root = folder / "t"
    for name in ("t/_delta_log", "t/p=1", "t/_change_data", "t/_h", "out/p=1", "elsewhere"):
        (folder / name).mkdir(parents=True)
    for link, target in (("ln", "t"), ("t/here", "."), ("t/up", ".."), ("t/alias", "p=1"),
                         ("t/p=2", "../out"), ("t/log", "_delta_log"), ("t/one.parquet", "p=1/c.parquet"),
                         ("t/far.parquet", "../out/a.parquet"), ("elsewhere/back.parquet", "../t/b.parquet")):
        os.symlink(target, folder / link)
    return root


# --- VACUUM: the property -------------------------------------------------------------------------

FILES = ("a.parquet", "b.parquet", NAME, "p=1/a.parquet", "p=1/c.parquet", "_change_data/a.parquet",
         "_h/a.parquet", "out:a.parquet", "deletion_vector_61d16c75-6994-46b7-a15b-8b538852e50e.bin")
TARGETS = (*FILES, "one.parquet", "far.parquet", "alias/a.parquet", "p=2/a.parquet", "p=2/p=1/a.parquet",
           "../out/a.parquet", "../out/p=1/a.parquet", "../elsewhere/back.parquet", COMMIT,
           "log/00000000000000000001.json", "_delta_log/_last_checkpoint", "", ".", "..", "p=1",
           "nothing.parquet", "a\0b", "x" * 300)

_path = st.builds(lambda how, name: (how, name), st.sampled_from(sorted(SPELLINGS)), st.sampled_from(TARGETS))
_entry = st.tuples(st.sampled_from(["add", "remove", "cdc", "vector", "gone vector"]), _path)


def lines_of(entries: list[tuple[str, tuple[str, str]]], root: Path) -> tuple[list[Any], list[Any]]:
    first: dict[str, Any] = {}
    then: list[Any] = []
    for number, (kind, (how, name)) in enumerate(entries):
        path = SPELLINGS[how](root, name)
        vector = {"storageType": "p", "pathOrInlineDv": path, "sizeInBytes": 1, "cardinality": 1}
        if kind == "add":
            first[path] = add(path)
        elif kind == "vector":
            first[f"v{number}"] = add(f"v{number}", deletionVector=vector)
        elif kind == "remove":
            then.append(remove(path))
        elif kind == "gone vector":
            then.append(remove(f"v{number}", deletionVector=vector))
        else:
            then.append({"cdc": {"path": path, "partitionValues": {}, "size": 1, "dataChange": False}})
    return list(first.values()), then


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below, each once, where it really is."""
    paths = (os.path.join(at, name) for at, _, names in os.walk(folder) for name in names)
    return {path: Path(path).read_bytes() for path in paths if not os.path.islink(path)}


@pytest.mark.slow
@pytest.mark.parametrize("lite", [False, True])
@pytest.mark.parametrize("opened", ["t", "ln", "elsewhere/../t"])
@few
@given(entries=st.lists(_entry, max_size=12))
def test_vacuum_deletes_only_what_is_inside_and_nobody_names(
    lite: bool, opened: str, entries: list[tuple[str, tuple[str, str]]]
) -> None:
    with tempfile.TemporaryDirectory() as temporary, dn.set_options(durability="none"):
        folder = Path(os.path.realpath(temporary))
        root = lake(folder)
        for name in FILES:
            (root / name).write_bytes(name.encode())
        for name in ("out/a.parquet", "out/p=1/a.parquet", "beside.parquet"):
            (folder / name).write_bytes(name.encode())
        added, removed = lines_of(entries, root)
        builder = TableBuilder(f"{folder}/{opened}").create()
        for lines in (added, removed):
            builder.commit({"txn": {"appId": "a", "version": builder.version}}, *lines)
        table = dn.DeltaTable(builder.log)
        live = [bare(path, root) for row in table.snapshot.files.to_pylist()
                for path in (row["path"], (row["deletion_vector"] or {}).get("path_or_inline_dv")) if path]
        before = contents(folder)
        would = table.vacuum(0, lite=lite, check=False, dry_run=True).files["path"].to_pylist()
        assert contents(folder) == before
        table.vacuum(0, lite=lite, check=False)
        after = contents(folder)
        gone = before.keys() - after.keys()
        assert {os.path.relpath(path, root) for path in gone} == {*would} - {"one.parquet", "far.parquet"}
        for path in gone:
            assert path.startswith(f"{root}/") and not path.startswith((f"{root}/_delta_log", f"{root}/_h"))
            assert path not in live
        for path in set(live) & before.keys():
            assert after[path] == before[path]
        # What it is there for: a file inside that was removed and that nobody names goes.
        for kind, (how, name) in entries:
            path = bare(SPELLINGS[how](root, name), root)
            if kind in ("remove", "cdc") and name in FILES and "_h" not in name and path not in live:
                assert path not in after
        if not lite:
            for name in FILES:
                assert (root / name).exists() == ("_h" in name or f"{root}/{name}" in live)


# --- VACUUM: by name ------------------------------------------------------------------------------

def spelled(folder: Path, how: str) -> tuple[dn.DeltaTable, Path]:
    """A table of one file (version 1), whose path is spelled in a way (version 2)."""
    root = lake(folder)
    shutil.rmtree(root / "_delta_log")
    table = dn.create(root, pa.table({"id": [0]}), properties={"delta.enableChangeDataFeed": "true"})
    pq.write_table(pa.table({"id": [1, 2, 3]}), root / NAME)
    txn = table.start_transaction()
    (file,) = txn.filter_files()
    txn.commit([file.remove(), AddFile(
        path=SPELLINGS[how](root, NAME), size=(root / NAME).stat().st_size, stats='{"numRecords":3}')],
        "WRITE")
    return table, root


@pytest.mark.parametrize("lite", [False, True])
@pytest.mark.parametrize("how", sorted(SPELLINGS))
def test_a_live_file_stays_however_it_is_spelled(tmp_path: Path, how: str, lite: bool) -> None:
    table, root = spelled(tmp_path, how)
    table.start_transaction().commit([], "WRITE")
    assert table.vacuum(0, lite=lite, check=False).num_files == 1  # the file of version 0
    assert table.to_arrow()["id"].to_pylist() == [1, 2, 3] and (root / NAME).exists()


@pytest.mark.parametrize("path", [
    "../victim", "%2e%2e/victim", "..%2Fvictim", "p=1/../../victim", "p=2/a", "p%3D2/a", "up/victim",
    "file:{folder}/victim", "{folder}/t/../victim", "{folder}/ln/../victim",
    "file://localhost{folder}/victim",
    COMMIT, "./" + COMMIT, "%5fdelta_log/00000000000000000000.json", "log/00000000000000000000.json",
    "here/" + COMMIT, "file:{folder}/ln/" + COMMIT, "_h/a", "here/_h/a",
])
@pytest.mark.parametrize("kind", ["remove", "cdc"])
@pytest.mark.parametrize("lite", [False, True])
def test_what_is_removed_elsewhere_is_not_the_tables(
    tmp_path: Path, path: str, kind: str, lite: bool
) -> None:
    root = lake(tmp_path)
    for name in ("victim", "out/a", "t/_h/a"):
        (tmp_path / name).write_text("mine")
    path = path.format(folder=tmp_path)
    line = remove(path) if kind == "remove" else {
        "cdc": {"path": path, "partitionValues": {}, "size": 1, "dataChange": False}}
    table = dn.DeltaTable(TableBuilder(root).create().commit(line).log)
    before = contents(tmp_path)
    assert table.vacuum(0, lite=lite, check=False).num_files == 0
    assert before.items() <= contents(tmp_path).items()


def test_a_table_whose_log_is_a_link_keeps_it(tmp_path: Path) -> None:
    (tmp_path / "t" / "commits").mkdir(parents=True)
    os.symlink("commits", tmp_path / "t" / "_delta_log")
    table = dn.create(tmp_path / "t", {"id": [1]})
    table.overwrite({"id": [2]})
    assert table.vacuum(0, check=False).num_files == 1
    assert dn.open(tmp_path / "t").to_arrow()["id"].to_pylist() == [2]


def test_a_name_that_no_log_can_say_stays(tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", {"id": [1]})
    odd = os.fsencode(tmp_path / "t") + b"/\xff.parquet"
    Path(os.fsdecode(odd)).write_bytes(b"?")
    assert table.vacuum(0, check=False).num_files == 0 and os.path.exists(odd)


def test_a_clone_through_a_link_and_back_keeps_the_files(tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", {"id": [1, 2]})
    os.symlink("t", tmp_path / "ln")
    copy = dn.DeltaTable(dn.DeltaLog(LocalStore(tmp_path / "ln"))).clone(tmp_path / "copy")
    back = copy.clone(tmp_path / "t", mode="overwrite")
    for lite in (False, True):
        back.vacuum(0, lite=lite, check=False)
        copy.vacuum(0, lite=lite, check=False)
    assert back.to_arrow()["id"].to_pylist() == copy.to_arrow()["id"].to_pylist() == [1, 2]
    copy.overwrite({"id": [3]})
    assert copy.vacuum(0, check=False).num_files == 0  # another table's files are not the clone's
    assert table.as_of(0).to_arrow().num_rows == 2


def test_a_clone_is_not_made_onto_itself_through_a_link(tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", {"id": [1]})
    os.symlink("t", tmp_path / "ln")
    with pytest.raises(InvalidArgument, match="onto itself"):
        table.clone(LocalStore(tmp_path / "ln"), mode="overwrite")


def test_file_systems_that_ignore_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log says A.PARQUET, the listing says a.parquet: one file, where the file system says so."""
    table = dn.DeltaTable(TableBuilder(tmp_path).create().commit(add("A.PARQUET")).log)
    (tmp_path / "a.parquet").write_text("x")
    assert table.vacuum(0, check=False, dry_run=True).num_files == 1
    samefile = os.path.samefile
    monkeypatch.setattr(os.path, "samefile", lambda a, b: samefile(str(a).lower(), str(b).lower()))
    assert table.vacuum(0, check=False).num_files == 0


def test_deletion_vectors_beside_a_linked_table_stay(tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", {"id": [1, 2, 3]}, properties={"delta.enableDeletionVectors": "true"})
    os.symlink("t", tmp_path / "ln")
    (vector,) = deletion_vectors.write_file(table.log.store, [BitMap64([0])])
    path = f"file:{tmp_path}/ln/" + deletion_vectors.relative_path(vector.path_or_inline_dv)
    txn = table.start_transaction()
    (file,) = txn.filter_files()
    far = vector.replace(storage_type="p", path_or_inline_dv=path)
    stats = '{"numRecords":3,"tightBounds":false}'
    txn.commit([file.remove(), file.replace(deletion_vector=far, stats=stats)], "DELETE")
    for lite in (False, True):
        assert table.vacuum(0, lite=lite, check=False).num_files == 0
    assert table.to_arrow()["id"].to_pylist() == [2, 3]


# --- others that delete ---------------------------------------------------------------------------

def test_the_clean_up_of_a_log_stays_in_the_log(tmp_path: Path) -> None:
    """A folder of sidecars that is a link into the data: its files are no sidecars."""
    table = dn.create(tmp_path / "t", {"id": [1]})
    table.append({"id": [2]})
    os.symlink("../", tmp_path / "t" / "_delta_log" / "_sidecars")
    for path in (tmp_path / "t").glob("*.parquet"):
        os.utime(path, (1, 1))
    table.log.checkpoint()
    assert cleanup.clean_up(table.log, 0) is not None
    assert table.to_arrow().num_rows == 2


@pytest.mark.parametrize("partitioned", [False, True])
def test_manifests_are_not_deleted_through_a_link(tmp_path: Path, partitioned: bool) -> None:
    table = dn.create(tmp_path / "t", {"id": [1], "p": ["x"]}, ["p"] if partitioned else ())
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "manifest").write_text("of another table")
    folder = tmp_path / "t" / "_symlink_format_manifest"
    if partitioned:
        folder.mkdir()
    os.symlink(tmp_path / "far", folder / "p=x" if partitioned else folder)
    for _ in range(2):
        with pytest.raises(InvalidTable, match="leads out of the table"):
            write_manifests(table.snapshot, {("x",)} if partitioned else None)
        assert (tmp_path / "far" / "manifest").read_text() == "of another table"
        table.delete("id = 1")


def test_discarded_files_are_those_that_were_written(tmp_path: Path) -> None:
    root = lake(tmp_path)
    shutil.rmtree(root / "_delta_log")
    table = dn.create(root, pa.table({"id": [1], "p": ["1"]}), "p")
    before = contents(tmp_path)
    txn = table.start_transaction()
    written = txn.write_files(pa.table({"id": [2, 3], "p": ["2", "1"]}))  # p=2 leads out of the table
    assert len(contents(tmp_path)) == len(before) + len(written) == len(before) + 2
    txn.discard_written()
    assert contents(tmp_path) == before


# --- readers --------------------------------------------------------------------------------------

@pytest.mark.parametrize("how", sorted(SPELLINGS))
def test_everything_in_the_process_reads_it(tmp_path: Path, how: str) -> None:
    table, root = spelled(tmp_path, how)
    assert table.to_arrow()["id"].to_pylist() == [1, 2, 3]
    assert list(versions(table.log)) == [0, 1]
    inserted = [row["id"] for row in table.changes(1, 1).to_pylist() if row["_change_type"] == "insert"]
    assert sorted(inserted) == [1, 2, 3]
    copy = table.clone(tmp_path / "copy")
    assert copy.to_arrow()["id"].to_pylist() == [1, 2, 3] and list(versions(copy.log)) == [0]
    copy.update({"id": "id + 1"}, where="id = 3")
    assert sorted(copy.to_arrow()["id"].to_pylist()) == [1, 2, 4]
    table.generate()
    (line,) = (root / "_symlink_format_manifest" / "manifest").read_text().splitlines()
    assert line.startswith("/") and os.path.samefile(line, root / NAME)
    table.analyze()
    table.delete("id = 2")
    assert table.restore(1).version == table.version
    assert table.to_arrow()["id"].to_pylist() == [1, 2, 3]


def test_a_linked_partition_is_read_and_never_emptied(tmp_path: Path) -> None:
    """Disks are joined so: the rows are the table's, the files are where the link leads."""
    (tmp_path / "t").mkdir()
    (tmp_path / "disk").mkdir()
    os.symlink(tmp_path / "disk", tmp_path / "t" / "p=x")
    table = dn.create(tmp_path / "t", {"id": [1, 2], "p": ["x", "y"]}, "p")
    assert len(os.listdir(tmp_path / "disk")) == 1 and list(table.versions()) == [0]
    table.overwrite({"id": [3], "p": ["x"]})
    for lite in (True, False):
        table.vacuum(0, lite=lite, check=False)
    assert len(os.listdir(tmp_path / "disk")) == 2 and not (tmp_path / "t" / "p=y").exists()
    assert table.to_arrow()["id"].to_pylist() == [3]


@pytest.mark.parametrize("path", ["a%00b", "a\0b", "a\ud800b"])
def test_what_no_file_can_be_called_is_refused_by_name(path: str) -> None:
    store = MemoryStore()
    with pytest.raises(InvalidTable, match="no file can have such a name"):
        place_of(store, path)
    assert Inside(store).name_of(path) is None and Inside(store).keys_of(path) == []


@pytest.mark.parametrize("path", [".", "", "..", "%2e", "p=1", "x" * 300, "a.parquet/b", "nothing"])
def test_a_path_that_is_no_file_is_said_to_be_missing(tmp_path: Path, path: str) -> None:
    root = lake(tmp_path)
    (root / "a.parquet").write_text("x")
    table = dn.DeltaTable(TableBuilder(root).create().commit(add(path)).log)
    with pytest.raises(DataFileNotFound):
        table.to_arrow()
    with pytest.raises(DataFileNotFound):
        TableBuilder(root, 1).commit(remove(path))
        table.restore(1)


def test_convert_says_what_it_would_miss(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "far").mkdir()
    for name in ("t/a.parquet", "far/b.parquet"):
        pq.write_table(pa.table({"id": [1]}), tmp_path / name)
    os.symlink("../far", tmp_path / "t" / "more")
    with pytest.raises(InvalidArgument, match="more in .* is a link"):
        dn.convert(tmp_path / "t")
    os.unlink(tmp_path / "t" / "more")
    odd = os.fsdecode(os.fsencode(tmp_path / "t") + b"/\xff.parquet")
    os.rename(tmp_path / "t" / "a.parquet", odd)
    with pytest.raises(InvalidArgument, match="not UTF-8"):
        dn.convert(tmp_path / "t")
    assert not (tmp_path / "t" / "_delta_log").exists()


@pytest.mark.spark
@pytest.mark.slow
def test_spark_reads_every_spelling(tmp_path: Path, spark: Any) -> None:
    root = lake(tmp_path)
    shutil.rmtree(root / "_delta_log")
    table = dn.create(root, pa.table({"id": [0], "p": ["1"]}), "p")
    added = []
    for number, how in enumerate(sorted(SPELLINGS)):
        name = f"p=1/{number} b%.parquet"
        pq.write_table(pa.table({"id": [number]}), root / name)
        added.append(AddFile(path=SPELLINGS[how](root, name), partition_values={"p": "1"},
                             size=(root / name).stat().st_size))
    twice = added[0].replace(path="p=1/./0%20b%25.parquet")
    table.start_transaction().commit([*added, twice], "WRITE")
    want = sorted([0, 0, *range(len(SPELLINGS))])
    assert sorted(table.to_arrow()["id"].to_pylist()) == want
    assert sorted(row["id"] for row in table.to_df(spark).collect()) == want


# --- roots that are URIs --------------------------------------------------------------------------

@pytest.mark.parametrize(("root", "path", "name"), [
    ("s3://lake/t", "s3://lake/t/a", "a"), ("s3://lake/t", "s3a://lake/t/a", "a"),
    ("s3a://lake/t", "S3://lake/x/../t/a", "a"), ("s3://lake/t", "../t/a", "a"),
    ("s3://lake/t", "../u/a", None), ("s3://lake/t", "s3://other/t/a", None),
    ("s3://lake/t", "/t/a", "a"), ("s3://lake/t", "/lake/t/a", None),
    ("s3://k:se/cret@lake/t", "s3://lake/t/a", "a"), ("s3://lake/t", "s3://k:secret@lake/t/a", "a"),
    ("https://h/t?sig=x", "https://h/t/a", "a"), ("abfss://one@h/t", "abfss://two@h/t/a", None),
    ("memory:///t", "memory:///t/a%20b", "a b"), ("memory:///t", "file:/t/a", None),
    ("memory:///t", "..", None),
])
def test_inside_a_uri(root: str, path: str, name: str | None) -> None:
    store = MemoryStore(root)
    assert place_of(store, path).name == Inside(store).name_of(path) == name


def test_two_spellings_of_one_table(tmp_path: Path) -> None:
    os.symlink(tmp_path, tmp_path / "ln")
    assert is_same_table(LocalStore(tmp_path), LocalStore(tmp_path / "ln"))
    assert not is_same_table(LocalStore(tmp_path), MemoryStore())
    assert not is_same_table(LocalStore(tmp_path), LocalStore(tmp_path / "x"))
    assert is_same_table(MemoryStore("s3://k:secret@lake/t"), MemoryStore("s3a://lake/t/"))


@pytest.mark.parametrize("root", ["s3://AKIA:secret@lake/t", "https://h/t?sv=1&sig=secret"])
def test_a_clone_keeps_no_secret(root: str) -> None:
    source = dn.create(MemoryStore(root), {"id": [1]}, properties={"delta.enableDeletionVectors": "true"})
    (vector,) = deletion_vectors.write_file(source.log.store, [BitMap64([0])])
    txn = source.start_transaction()
    (file,) = txn.filter_files()
    stats = '{"numRecords":1,"tightBounds":false}'
    txn.commit([file.remove(), file.replace(deletion_vector=vector, stats=stats)], "DELETE")
    target = MemoryStore()
    copy = source.clone(target)
    (row,) = copy.snapshot.files.to_pylist()
    plain = root.replace("AKIA:secret@", "").partition("?")[0]
    assert row["path"].startswith(f"{plain}/part-")
    assert row["deletion_vector"]["path_or_inline_dv"].startswith(f"{plain}/deletion_vector_")
    assert all(b"secret" not in target.read(name) for name in target.files)
    assert "***" in copy.history(1)[0].operation_parameters["source"]
    assert source.snapshot.log.path == root and source.to_arrow().num_rows == 0


def test_a_file_that_only_its_signature_opens_is_not_cloned(tmp_path: Path) -> None:
    builder = TableBuilder(tmp_path / "t").create().commit(add("https://h/a.parquet?X-Amz-Signature=secret"))
    with pytest.raises(InvalidArgument, match="signed URL") as caught:
        dn.DeltaTable(builder.log).clone(tmp_path / "copy")
    assert "secret" not in str(caught.value) and not (tmp_path / "copy").exists()


def test_manifests_keep_no_secret() -> None:
    store = MemoryStore("s3://AKIA:secret@lake/t")
    dn.create(store, {"id": [1]}).generate()
    (line,) = store.read("_symlink_format_manifest/manifest").decode().splitlines()
    assert line.startswith("s3://lake/t/part-")
