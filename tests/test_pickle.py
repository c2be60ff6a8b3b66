"""Tables and snapshots go to other processes as joblib, dask and Spark send them: by pickle."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import deltanb as dn
from deltanb.errors import IllegalStateError, TableReplaced, VersionNotFound
from deltanb.log.reader import LogReader
from deltanb.store.local import LocalStore
from deltanb.testing import MemoryStore
from tests.helpers import ids, table_of

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def table(tmp_path: Path) -> dn.DeltaTable:
    """Two versions in a folder."""
    table = dn.create(tmp_path / "ducks", {"id": [1, 2]})
    table.append({"id": [3]})
    return table


def again(one: Any) -> Any:
    return pickle.loads(pickle.dumps(one))


def in_another_process(one: Any, expression: str, tmp_path: Path) -> str:
    """What an expression on the unpickled object ``it`` is in a fresh interpreter."""
    path = tmp_path / "it.pickle"
    path.write_bytes(pickle.dumps(one))
    code = f"import pickle, sys; it = pickle.load(open(sys.argv[1], 'rb')); print(({expression}))"
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True,
                          cwd=ROOT)
    return done.stdout.strip()


def test_a_table_is_the_same_table_in_another_process(table: dn.DeltaTable, tmp_path: Path) -> None:
    assert in_another_process(table, "it.version, it.to_arrow().num_rows", tmp_path) == "(1, 3)"
    assert in_another_process(table.as_of(0), "it.version, it.count()", tmp_path) == "(0, 2)"
    assert in_another_process(table.snapshot, "it.version, it.num_files, it.schema.names", tmp_path) == (
        "(1, 2, ['id'])")


def test_a_table_follows_its_log_and_a_past_one_stands_still(table: dn.DeltaTable) -> None:
    new, old = again(table), again(table.as_of(1))
    table.append({"id": [4]})
    assert new.log is table.log and ids(new) == [1, 2, 3, 4] and ids(old) == [1, 2, 3]
    new.append({"id": [5]})
    with pytest.raises(IllegalStateError, match="as of version 1"):
        old.append({"id": [5]})
    assert ids(copy.deepcopy(table)) == ids(copy.copy(table)) == [1, 2, 3, 4, 5]


def test_pickles_are_small_whatever_the_table_holds(table: dn.DeltaTable) -> None:
    assert max(len(pickle.dumps(one)) for one in (table, table.as_of(0), table.snapshot)) < 1000


def test_joblib_and_spark_send_a_table_within_a_function(table: dn.DeltaTable) -> None:
    cloudpickle = pytest.importorskip("pyspark.cloudpickle")
    assert pickle.loads(cloudpickle.dumps(lambda: table.count("id > 1")))() == 2


def test_the_settings_of_a_store_go_with_it(tmp_path: Path) -> None:
    log = LogReader(LocalStore(tmp_path / "ducks", durability="none"))
    assert again(log).store == log.store and again(log).snapshot.version == -1
    assert again(again(log).snapshot).version == -1


def test_a_version_that_is_gone_or_another_tables_is_told(table: dn.DeltaTable, tmp_path: Path) -> None:
    data = pickle.dumps(table.as_of(1))
    log = tmp_path / "ducks" / "_delta_log"
    saved = {file: file.read_bytes() for file in log.iterdir() if file.is_file()}
    for file in saved:
        file.unlink()
    table = dn.create(tmp_path / "ducks", {"id": [9]}, mode="error", allow_files=True)
    with pytest.raises(VersionNotFound):
        pickle.loads(data)
    table.append({"id": [9]})
    with pytest.raises(TableReplaced, match="another table is there"):
        pickle.loads(data)


def test_what_belongs_to_this_process_is_refused(tmp_path: Path) -> None:
    table = table_of({"id": [1]})
    catalog = dn.Catalog(f"sqlite:///{tmp_path}/lake.db", warehouse=tmp_path / "lake")
    catalog.create_namespace("shop")
    of_catalog = catalog.create_table("shop.ducks", {"id": [1]})
    folder = dn.create(tmp_path / "ducks", {"id": [1]})
    txn = dn.locks.LockManager().new_transaction()
    own = dn.DeltaTable(dn.DeltaLog(LocalStore(tmp_path / "ducks"), committer=lambda *args: None))  # type: ignore
    for one, pattern in (
        (table, "memory of this process"), (MemoryStore(), "memory of this process"),
        (of_catalog, "catalog.table"), (of_catalog.snapshot, "catalog.table"),
        (folder.transaction(), "cannot be pickled"), (txn.table(folder), "cannot be pickled"),
        (own, "committer"),
    ):
        with pytest.raises(IllegalStateError, match=pattern):
            pickle.dumps(one)
    catalog.close()
