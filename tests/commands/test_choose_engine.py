"""Who works, and what is said where a JVM is started for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltanb.commands import choose_engine as engines
from deltanb.commands.begin import begin
from deltanb.errors import InvalidArgument, InvalidPredicate, UnsupportedPredicate
from deltanb.table.entry import create
from deltanb.table.table import DeltaTable
from deltanb.testing import MemoryStore

LIE = 1 << 50


@pytest.fixture(autouse=True)
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process where no Spark runs, though other tests may have begun it."""
    pytest.importorskip("pyspark")
    monkeypatch.setattr("deltanb.engines.spark.session.running_session", lambda: None)
    monkeypatch.delenv("SPARK_REMOTE", raising=False)


def test_who_works(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    here = create(tmp_path / "t", {"id": [1]})
    elsewhere = create(MemoryStore(), {"id": [1]})
    reason = UnsupportedPredicate("soundex")

    def chosen(table: DeltaTable, engine: str, reason: UnsupportedPredicate | None = None) -> str:
        txn = begin(table.log, "rows", removes="DELETE")
        return engines.choose_engine(txn, engine, txn.filter_files(), reason)

    installed: Any = object()
    monkeypatch.setattr(engines, "find_spec", lambda name: installed)
    assert [chosen(here, engine) for engine in ("auto", "arrow", "spark")] == [
        "arrow", "arrow", "spark"]
    assert chosen(here, "auto", reason) == "spark"
    with pytest.raises(UnsupportedPredicate):
        chosen(here, "arrow", reason)
    with pytest.raises(InvalidArgument, match="'duckdb'"):
        chosen(here, "duckdb")
    monkeypatch.setattr(engines, "MAX_IN_PROCESS_BYTES", 10)
    assert (chosen(here, "auto"), chosen(here, "arrow")) == ("spark", "arrow")
    assert chosen(elsewhere, "auto") == "arrow"  # Spark does not reach memory
    installed = None
    assert chosen(here, "auto") == "arrow"
    with pytest.raises(UnsupportedPredicate):
        chosen(here, "auto", reason)


def test_a_constraint_that_only_spark_checks_is_sparks(monkeypatch: pytest.MonkeyPatch) -> None:
    table = create(MemoryStore(), pa.schema([("id", pa.int64()), ("t", pa.string())]),
                   properties={"delta.constraints.c": "soundex(t) <> 'A100'"})
    txn = begin(table.log, "rows", removes="UPDATE")
    monkeypatch.setattr(engines, "find_spec", lambda name: object())
    assert engines.choose_engine(txn, "auto", txn.filter_files(), None) == "spark"
    with pytest.raises(UnsupportedPredicate, match="soundex"):
        engines.choose_engine(txn, "arrow", txn.filter_files(), None)


def lied_to(path: Path, files: int = 3) -> DeltaTable:
    """A table whose log says of every file that it has a petabyte."""
    table = create(path, {"id": [1, 2], "n": [0, 0]})
    for n in range(1, files):
        table.append({"id": [2 * n + 1, 2 * n + 2], "n": [0, 0]})
    txn = table.start_transaction()
    written = list(txn.filter_files())
    for file in written:
        (path / file.path).rename(path / f"moved-{file.path}")
    lies = [file.replace(path=f"moved-{file.path}", size=LIE) for file in written]
    txn.commit([*(file.remove() for file in written), *lies])
    return table


COMMANDS = """
import sys
import deltanb as dn
table = dn.open(sys.argv[1])
done = [
    table.optimize(zorder_by=["id"]),
    table.update({"n": "n + 1"}, where="id = 1"),
    table.delete("id = 2"),
    table.merge(dn.open(sys.argv[1]), "t.id = s.id", target_alias="t", source_alias="s")
        .when_matched_update(set={"n": "s.n + 1"}).execute(),
    table.optimize(),
]
print([result.engine for result in done], {"pyspark", "py4j"} & set(sys.modules))
"""


def test_sizes_that_are_no_truth_start_no_jvm(tmp_path: Path) -> None:
    table = lied_to(tmp_path / "t")
    run = subprocess.run([sys.executable, "-c", COMMANDS, str(tmp_path / "t")], capture_output=True,
                         text=True, check=False)
    assert (run.stdout, run.stderr) == ("['arrow', 'arrow', 'arrow', 'arrow', 'log'] set()\n", "")
    metrics = table.history()[-5].operation_metrics
    assert metrics is not None and metrics["numAddedFiles"] == "1", "cut by what is there, too"
    assert sorted(table.to_arrow().to_pylist(), key=str) == [
        {"id": n, "n": 2 if n == 1 else 1} for n in (1, 3, 4, 5, 6)]


def test_footers_are_asked_only_where_the_log_would_choose_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lied_to(tmp_path / "lie")
    honest = create(tmp_path / "honest", {"id": [1]})
    asked: list[str] = []
    whole = engines.opened
    monkeypatch.setattr(engines, "opened", lambda *which, **how: asked.append("one") or whole(*which, **how))
    store = table.log.store

    def size(table: DeltaTable) -> int:
        asked.clear()
        return engines.bytes_to_read(table.log.store, [table.snapshot.files])

    assert size(honest) == honest.snapshot.size_in_bytes and asked == []
    own = sum(pq.read_metadata(tmp_path / "lie" / name).row_group(0).column(place).total_compressed_size
              for name in table.snapshot.files["path"].to_pylist() for place in range(2))
    assert size(table) == own and len(asked) == 3
    monkeypatch.setattr(engines, "MAX_IN_PROCESS_BYTES", own // 3)
    assert own // 3 < size(table) < own and len(asked) == 2  # no further than it takes to know
    # A file that is gone or no Parquet file is not for this step to refuse.
    first, *_ = table.snapshot.files["path"].to_pylist()
    (tmp_path / "lie" / first).write_bytes(b"no Parquet file")
    monkeypatch.setattr(engines, "MAX_IN_PROCESS_BYTES", 1 << 30)
    assert size(table) >= LIE and store is table.log.store


def test_a_jvm_that_nobody_asked_for_is_announced_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = create(tmp_path / "t", {"id": [1]})
    txn = begin(table.log, "rows", removes="DELETE")
    files, reason = txn.filter_files(), UnsupportedPredicate("soundex() runs\nelsewhere")

    def announcement(engine: str, reason: UnsupportedPredicate | None = None) -> str:
        engines.choose_engine(txn, engine, files, reason)
        return capsys.readouterr().err

    begins = "deltanb starts Spark for this, which takes some seconds: "
    assert announcement("auto", reason) == (
        f'{begins}soundex() runs. With engine="arrow" it is refused instead.\n')
    assert announcement("auto") == announcement("spark") == announcement("spark", reason) == ""
    size = engines.bytes_to_read(table.log.store, [table.snapshot.files])
    monkeypatch.setattr(engines, "MAX_IN_PROCESS_BYTES", 10)
    stored = sum(pq.read_metadata(tmp_path / "t" / file.path).row_group(0).column(0)
                 .total_compressed_size for file in files)
    assert 10 < stored < size
    assert announcement("auto") == (
        f"{begins}{stored} B or more are to be read, and this process takes on 10 B by itself. "
        'With engine="arrow" it does so anyway.\n')
    assert announcement("arrow") == announcement("spark") == ""
    monkeypatch.setenv("SPARK_REMOTE", "sc://localhost")
    assert announcement("auto", reason) == "", "a server runs already"
    monkeypatch.delenv("SPARK_REMOTE")
    monkeypatch.setattr("deltanb.engines.spark.session.running_session", object)
    assert announcement("auto", reason) == "", "the session runs already"


@pytest.mark.parametrize("command", [
    lambda table, sql: table.delete(f"{sql} = 'x'"),
    lambda table, sql: table.update({"name": sql}, "soundex(name) = 'D540'"),
    lambda table, sql: table.update({"name": f"concat({sql}, soundex(name))"}),
    lambda table, sql: table.merge({"id": [1]}, "target.id = source.id")
        .when_matched_update(set={"name": sql.replace("name", "target.name")}).execute(),
    lambda table, sql: table.merge({"id": [1]}, "target.id > source.id")
        .when_matched_delete(f"{sql.replace('name', 'target.name')} = 'x'").execute(),
], ids=["delete", "update", "update all", "merge", "merge where"])
def test_a_function_that_spark_lacks_is_refused_before_it_starts(
    command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("deltanb.engines.spark.session.running_session", lambda: None)
    table = create(tmp_path / "t", {"id": [1], "name": ["Donald"]})
    with pytest.raises(InvalidPredicate, match=r"calls soundexx\(\), .*did you mean soundex\(\)"):
        command(table, "soundexx(name)")
    assert capsys.readouterr().err == ""
    assert table.version == 0


def test_what_the_process_does_not_know_is_refused_with_the_way_out(tmp_path: Path) -> None:
    table = create(tmp_path / "t", {"id": [1], "name": ["Donald"]})
    only = "soundex(name) = 'D540'"
    for command in (lambda: table.delete(only, engine="arrow"),
                    lambda: table.update({"name": "soundex(name)"}, engine="arrow"),
                    lambda: table.merge({"id": [1]}, "target.id = source.id").when_matched_delete(
                        "soundex(target.name) = 'D540'").execute(engine="arrow"),
                    lambda: table.add_constraint("c", only, engine="process")):
        with pytest.raises(UnsupportedPredicate, match=r'rewrite it .*, or take engine="spark"$'):
            command()
    with pytest.raises(UnsupportedPredicate, match=r"rewrite it .*, or read with to_df\(where=…\)"):
        table.to_arrow(where=only)


def test_a_constraint_that_spark_is_started_for_is_announced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from deltanb.engines.spark.engine import SparkEngine

    monkeypatch.setattr(SparkEngine, "first", lambda *_: None)
    table = create(tmp_path / "t", {"t": ["a"]})
    table.add_constraint("c", "soundex(t) <> 'A100'")
    assert 'With engine="process" it is refused instead.\n' in capsys.readouterr().err
    table.add_constraint("d", "soundex(t) <> 'A100'", engine="spark")
    assert capsys.readouterr().err == ""
