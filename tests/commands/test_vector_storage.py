"""Deletion vectors in every place that the protocol knows: whoever needs their files finds them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyroaring import BitMap64

import deltanb as dn
from deltanb.actions import DeletionVector, RemoveFile
from deltanb.actions.data_files import STORAGE_TYPES
from deltanb.engines.arrow import deletion_vectors
from deltanb.errors import DataFileNotFound
from deltanb.observe.availability import versions

NAME = "my vectors/of 100%25.bin"


def inline(path: Path, written: DeletionVector) -> DeletionVector:
    (path / deletion_vectors.relative_path(written.path_or_inline_dv)).unlink()
    return deletion_vectors.inline(BitMap64([0]))


def with_uuid(path: Path, written: DeletionVector) -> DeletionVector:
    return written


def renamed(path: Path, written: DeletionVector) -> str:
    (path / NAME).parent.mkdir()
    (path / deletion_vectors.relative_path(written.path_or_inline_dv)).rename(path / NAME)
    return NAME


def relative(path: Path, written: DeletionVector) -> DeletionVector:
    return written.replace(storage_type="r", path_or_inline_dv=renamed(path, written))


def absolute(path: Path, written: DeletionVector) -> DeletionVector:
    return written.replace(storage_type="p", path_or_inline_dv=(path / renamed(path, written)).as_uri())


STORED: dict[str, Callable[[Path, DeletionVector], DeletionVector]] = {
    "i": inline, "u": with_uuid, "r": relative, "p": absolute}


@pytest.fixture(params=STORAGE_TYPES)
def table(request: Any, tmp_path: Path) -> dn.DeltaTable:
    """Rows 1 to 3 in a file, of which a vector removes the first one; row 4 in another one."""
    made = dn.create(tmp_path / "t", {"id": [1, 2, 3]}, properties={"delta.enableDeletionVectors": True})
    txn = made.start_transaction()
    (file,) = txn.filter_files()
    (written,) = deletion_vectors.write_file(made.log.store, [BitMap64([0])])
    vector = STORED[request.param](tmp_path / "t", written)
    txn.commit([file.remove(), file.with_deletion_vector(vector)], "DELETE")
    made.append({"id": [4]})
    return made


def vector_file(table: dn.DeltaTable) -> Path | None:
    return next(iter(Path(table.log.path).rglob("*.bin")), None)


def ids(table: Any) -> list[int]:
    return sorted(table.to_arrow()["id"].to_pylist())


def test_its_rows_are_gone_from_the_log_and_from_a_checkpoint(table: dn.DeltaTable) -> None:
    assert ids(table) == [2, 3, 4]
    table.log.checkpoint()
    assert ids(dn.open(table.log.path)) == [2, 3, 4]


@pytest.mark.parametrize("lite", [False, True])
def test_a_vacuum_spares_it_while_it_is_needed(table: dn.DeltaTable, lite: bool) -> None:
    table.vacuum(0, lite=lite, check=False)
    assert ids(table) == [2, 3, 4]
    table.purge()
    table.vacuum(0, lite=lite, check=False)
    assert ids(table) == [2, 3, 4]


def test_a_clone_reads_it_where_it_is(table: dn.DeltaTable, tmp_path: Path) -> None:
    assert ids(table.clone(tmp_path / "copy")) == [2, 3, 4]


def test_what_is_missing_is_named(table: dn.DeltaTable) -> None:
    table.overwrite({"id": [9]})
    file = vector_file(table)
    assert list(versions(table.log)) == [0, 1, 2, 3]
    if file is None:
        return
    file.unlink()
    (gap,) = versions(table.log).gaps
    assert (gap.first, gap.last, gap.num_files) == (1, 2, 1)
    with pytest.raises(DataFileNotFound) as caught:
        table.restore(2)
    assert [Path(path).name for path in caught.value.files] == [file.name]


def test_its_file_outlives_the_feature_for_older_versions(table: dn.DeltaTable) -> None:
    file = vector_file(table)
    table.set_properties({"delta.enableDeletionVectors": False})
    table.purge()
    table.drop_feature("deletionVectors")
    names = [action.path for version in range(table.version + 1) for action in table.log.read_commit(version)
             if isinstance(action, RemoveFile) and ".bin" in action.path]
    assert len(names) == (file is not None)
    assert file is None or vector_file(table) == file
    assert ids(table.as_of(2)) == [2, 3, 4]
