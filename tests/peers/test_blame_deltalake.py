"""Random histories that delta-rs writes: each row is blamed as in a model of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pytest

import deltanb as dn
from tests.examples import first
from tests.observe.blame.histories import METHODS, History, columns, properties_of

KINDS = ("plain", "feed")
SEEDS = first(4, of=100)


class Peer:
    """A table of delta-rs with the names of ours."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def handle(self) -> deltalake.DeltaTable:
        return deltalake.DeltaTable(self.path)

    @property
    def version(self) -> int:
        return int(self.handle.version())


def append(history: History) -> None:
    rows, version = history.new_rows(2), history.next
    deltalake.write_deltalake(history.table.path, columns(rows), mode="append")
    history.model.insert(rows, version)


def update(history: History) -> None:
    n, version = history.random.randrange(4), history.next
    history.table.handle.update({"n": "n + 1", "text": "'z'"}, predicate=f"n = {n} AND part = 'a'")
    history.model.increase(n, version)


def delete(history: History) -> None:
    n = history.random.randrange(4)
    history.table.handle.delete(f"n = {n}")
    history.model.delete(n)


def merge(history: History) -> None:
    rows, version = history.rows_to_merge(), history.next
    (history.table.handle.merge(columns(rows), "t.id = s.id", source_alias="s", target_alias="t")
     .when_matched_update({"n": "s.n", "text": "s.text"}).when_not_matched_insert_all().execute())
    history.model.merge(rows, version)


def overwrite(history: History) -> None:
    rows, version = history.new_rows(4), history.next
    deltalake.write_deltalake(history.table.path, columns(rows), mode="overwrite")
    history.model.overwrite(rows, version)


def replace_where(history: History) -> None:
    rows, version = [{**row, "n": 2} for row in history.new_rows(2)], history.next
    deltalake.write_deltalake(history.table.path, columns(rows), mode="overwrite", predicate="n = 2")
    history.model.replace(2, rows, version)


def optimize(history: History) -> None:
    table = history.table.handle
    table.optimize.z_order(["n"]) if history.random.random() < 0.5 else table.optimize.compact()


def restore(history: History) -> None:
    if not history.table.version:
        return  # it restores earlier versions alone
    version = history.random.randrange(history.table.version)
    history.table.handle.restore(version)
    history.model.restore(version)


STEPS: list[Callable[[History], None]] = [
    append, update, delete, merge, overwrite, replace_where, optimize, restore]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_delta_rs_are_blamed_on_the_commit_that_last_wrote_them(
    kind: str, seed: int, tmp_path: Path
) -> None:
    history = History(Peer(tmp_path / "t"), seed)
    rows: Any = history.new_rows(5)
    deltalake.write_deltalake(history.table.path, columns(rows), configuration=properties_of(kind),
                              partition_by=["part"] if seed % 2 else None)
    history.model.insert(rows, 0)
    history.model.commit(0)
    history.run(10, STEPS)
    blame, _ = history.check_blame(dn.open(history.table.path))
    assert blame.method == METHODS[kind] or not len(blame)
    assert set(blame.to_arrow()["_writer"].to_pylist()) <= {"delta-rs"}
