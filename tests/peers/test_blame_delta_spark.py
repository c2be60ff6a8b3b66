"""Random histories that Delta Spark writes: each row is blamed as in a model of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import deltanb as dn
from tests.examples import every, first
from tests.observe.blame.histories import METHODS, TABLES, History, properties_of
from tests.peers.delta_spark import DeltaSpark, table

pytestmark = [pytest.mark.slow, pytest.mark.spark]
SEEDS = first(1, of=30)


class Peer:
    """A table of Delta Spark with the names of ours."""

    def __init__(self, peer: DeltaSpark, path: Path) -> None:
        self.peer, self.path, self.name = peer, path, table(path)

    @property
    def version(self) -> int:
        return int(dn.open(self.path).version)

    def sql(self, text: str) -> None:
        self.peer.sql(text.format(t=self.name))


def literal(row: dict[str, Any]) -> str:
    text = "CAST(NULL AS STRING)" if row["text"] is None else f"'{row['text']}'"
    return f"({row['id']}L, '{row['part']}', {row['n']}L, {text})"


def values(rows: list[dict[str, Any]]) -> str:
    return "VALUES " + ", ".join(map(literal, rows))


def append(history: History) -> None:
    rows, version = history.new_rows(2), history.next
    history.table.sql(f"INSERT INTO {{t}} {values(rows)}")
    history.model.insert(rows, version)


def update(history: History) -> None:
    n, version = history.random.randrange(4), history.next
    history.table.sql(f"UPDATE {{t}} SET n = n + 1, text = 'z' WHERE n = {n} AND part = 'a'")
    history.model.increase(n, version)


def delete(history: History) -> None:
    n = history.random.randrange(4)
    history.table.sql(f"DELETE FROM {{t}} WHERE n = {n}")
    history.model.delete(n)


def merge(history: History) -> None:
    rows, version = history.rows_to_merge(), history.next
    history.table.sql(
        f"MERGE INTO {{t}} t USING (SELECT * FROM {values(rows)} AS s(id, part, n, text)) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET n = s.n, text = s.text WHEN NOT MATCHED THEN INSERT *")
    history.model.merge(rows, version)


def overwrite(history: History) -> None:
    rows, version = history.new_rows(3), history.next
    history.table.sql(f"INSERT OVERWRITE {{t}} {values(rows)}")
    history.model.overwrite(rows, version)


def replace_where(history: History) -> None:
    rows, version = [{**row, "n": 2} for row in history.new_rows(2)], history.next
    history.table.sql(f"INSERT INTO {{t}} REPLACE WHERE n = 2 {values(rows)}")
    history.model.replace(2, rows, version)


def optimize(history: History) -> None:
    history.table.sql("OPTIMIZE {t}" + history.random.choice(["", " ZORDER BY (n)"]))


def purge(history: History) -> None:
    history.table.sql("REORG TABLE {t} APPLY (PURGE)")


def restore(history: History) -> None:
    version = history.random.randrange(history.table.version + 1)
    history.table.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {version}")
    history.model.restore(version)


STEPS: list[Callable[[History], None]] = [
    append, update, delete, merge, overwrite, replace_where, optimize, purge, restore]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", every(5, list(TABLES)))
def test_rows_of_delta_spark_are_blamed_on_the_commit_that_last_wrote_them(
    kind: str, seed: int, delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    history = History(Peer(delta_spark, tmp_path / "t"), seed)
    rows: Any = history.new_rows(5)
    properties = ", ".join(f"'{name}' = '{value}'" for name, value in {
        "delta.checkpointInterval": "4", **properties_of(kind)}.items())
    by = "PARTITIONED BY (part)" if seed % 2 else ""
    history.table.sql(f"CREATE TABLE {{t}} (id BIGINT, part STRING, n BIGINT, text STRING) USING delta {by} "
                      f"TBLPROPERTIES ({properties})")
    history.model.commit(0)
    history.table.sql(f"INSERT INTO {{t}} {values(rows)}")
    history.model.insert(rows, 1)
    history.model.commit(1)
    history.run(9, STEPS)
    blame, about = history.check_blame(dn.open(history.table.path))
    if kind in METHODS or "replace_where" not in history.done:  # of which it does not say whether ids stay
        assert blame.method == METHODS.get(kind, "row ids") or not len(blame), about
