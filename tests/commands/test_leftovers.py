"""Files of writes that were cut short: the write removes them, or VACUUM does once nobody can need them."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

import deltanb as dn
from deltanb.engines.arrow.write import SPARK_FOLDER
from deltanb.errors import StorageError
from deltanb.store.local import _SyncedFile, is_temporary
from tests.helpers import tree

HEX = "0123456789abcdef"
UUID = "d2c639aa-8816-431a-aaf6-d3fe2512ff61"
VECTORS = {"delta.enableDeletionVectors": "true"}
TEMPORARIES = [
    f".deletion_vector_{HEX}.bin.{HEX}.tmp",
    f"_delta_log/.00000000000000000001.json.{HEX}.tmp",
    f"_delta_log/.00000000000000000001.checkpoint.parquet.{HEX}.tmp",
    f"_delta_log/_sidecars/.one.parquet.{HEX}.tmp",
    f"_symlink_format_manifest/part=1/.manifest.{HEX}.tmp",
    f".deletion_vector_{UUID}.bin.tmp", f".deletion_vector_{UUID}.bin.{UUID}.tmp",
    f"aB/.deletion_vector_{UUID}.bin.tmp",
    f"_delta_log/.00000000000000000001.json.{UUID}.tmp", f"_delta_log/_sidecars/.one.parquet.{UUID}.tmp",
]
FOLDER = f"{SPARK_FOLDER}{HEX}{HEX}"
IN_FOLDER = [f"{FOLDER}/part=1/part-0.parquet", f"{FOLDER}/_temporary/0/task/part-1.parquet",
             f"{FOLDER}/.part-0.parquet.crc"]
OTHERS = [".mine.tmp", f"_delta_log/.{HEX}.tmp.crc", f"{SPARK_FOLDER}mine/part-0.parquet", "_mine/x",
          f".mine.{UUID}.tmp", ".deletion_vector_mine.bin.tmp", f"_mine/.deletion_vector_{UUID}.bin.tmp"]


def put(root: Path, names: list[str], hours: float) -> None:
    """Files that were written so many hours ago, in folders as old."""
    when = time.time() - 3600 * hours
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"half")
        os.utime(path, (when, when))
        for folder in path.parents:
            if folder.is_relative_to(root) and folder != root:
                os.utime(folder, (when, when))


def of_table(name: str) -> bool:
    return not name.startswith("_delta_log/") or is_temporary(name)


def test_a_full_vacuum_sweeps_what_is_older_than_the_retention(tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", {"id": [1]})
    root = tmp_path / "t"
    put(root, [*TEMPORARIES, *IN_FOLDER, *OTHERS], hours=200)
    before = tree(root)
    dry_run = table.vacuum(dry_run=True)
    assert set(dry_run.files["path"].to_pylist()) == {*TEMPORARIES, *IN_FOLDER} and tree(root) == before
    table.vacuum(lite=True)
    assert tree(root) >= {*TEMPORARIES, *IN_FOLDER}, "lite asks the log"
    done = table.vacuum()
    assert set(done.files["path"].to_pylist()) == {*TEMPORARIES, *IN_FOLDER}
    assert set(filter(of_table, tree(root))) == set(filter(of_table, before)) - {*TEMPORARIES, *IN_FOLDER}
    assert not (root / FOLDER).exists() and (root / f"{SPARK_FOLDER}mine").exists()
    assert table.to_arrow()["id"].to_pylist() == [1]


def test_what_a_writer_may_be_at_stays(tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", {"id": [1]})
    put(tmp_path / "t", [*TEMPORARIES, *IN_FOLDER], hours=100)  # the retention is a week
    before = tree(tmp_path / "t")
    assert table.vacuum().num_files == 0
    assert tree(tmp_path / "t") >= before


def test_a_folder_of_sparks_goes_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    """Its first files may be older than the retention while it still writes."""
    table = dn.create(tmp_path / "t", {"id": [1]})
    put(tmp_path / "t", IN_FOLDER[:2], hours=200)
    put(tmp_path / "t", IN_FOLDER[2:], hours=1)
    assert table.vacuum().num_files == 0
    assert tree(tmp_path / "t") >= set(IN_FOLDER)


def test_an_empty_folder_of_sparks_goes_when_it_is_old(tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", {"id": [1]})
    young, old = tmp_path / "t" / FOLDER, tmp_path / "t" / f"{SPARK_FOLDER}{HEX[::-1]}{HEX}"
    young.mkdir()
    (old / "_temporary").mkdir(parents=True)
    for folder in (old / "_temporary", old):
        os.utime(folder, (1, 1))
    table.vacuum()
    assert young.exists() and not old.exists()


def test_a_linked_folder_is_not_followed(tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", {"id": [1]})
    put(tmp_path, ["elsewhere/part-0.parquet"], hours=200)
    (tmp_path / "t" / FOLDER).symlink_to(tmp_path / "elsewhere")
    table.vacuum(0, check=False)
    assert (tmp_path / "elsewhere" / "part-0.parquet").exists()


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), KeyboardInterrupt()])
@pytest.mark.parametrize("call", ["__init__", "write", "close"])
@pytest.mark.parametrize("after", [False, True])
def test_a_vector_that_is_not_committed_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, after: bool, error: BaseException
) -> None:
    table = dn.create(tmp_path / "t", {"id": [1, 2, 3]}, properties=VECTORS)
    before = tree(tmp_path / "t")
    real, strikes = getattr(_SyncedFile, call), [1]

    def struck(file: _SyncedFile, *args: Any) -> Any:
        path = args[0] if call == "__init__" else file._path
        if "deletion_vector" not in str(path) or not strikes:
            return real(file, *args)
        strikes.clear()
        if after:
            real(file, *args)
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(_SyncedFile, call, struck)
        with dn.set_options(durability="sync"), pytest.raises(
                type(error) if isinstance(error, KeyboardInterrupt) else StorageError):
            table.delete("id = 2")
    assert not strikes and tree(tmp_path / "t") == before
    table.delete("id = 2")
    assert table.to_arrow()["id"].to_pylist() == [1, 3]


@pytest.mark.parametrize("call", ["write", "fsync"])
def test_a_data_file_that_cannot_be_written_is_an_error_of_the_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    table = dn.create(tmp_path / "t", {"id": [1]})
    before = tree(tmp_path / "t")
    with monkeypatch.context() as patch:
        def full(*args: Any) -> None:
            raise OSError(28, "No space left on device")

        patch.setattr(os, "fsync", full) if call == "fsync" else patch.setattr(_SyncedFile, call, full)
        with dn.set_options(durability="sync"), \
                pytest.raises(StorageError, match=r"/part-00000-\S+ cannot be written: No space") as caught:
            table.append({"id": [2]})
    assert caught.value.errno == 28
    assert tree(tmp_path / "t") == before
