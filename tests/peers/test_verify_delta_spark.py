"""Histories of Delta Spark, verified by us: nothing is proved wrong of them, and faults in them are found."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

import deltanb as dn
from tests.examples import first
from tests.observe.verify import faults_in_logs  # noqa: F401
from tests.observe.verify.planting import FAULTS, Broken
from tests.peers.delta_spark import DeltaSpark, PeerError, table

pytestmark = [pytest.mark.slow, pytest.mark.spark]

PROPERTIES = (
    "'delta.enableDeletionVectors' = 'true'", "'delta.enableChangeDataFeed' = 'true'",
    "'delta.enableRowTracking' = 'true'", "'delta.columnMapping.mode' = 'name'",
    "'delta.enableInCommitTimestamps' = 'true'", "'delta.checkpointPolicy' = 'v2'",
)
SEEDS = first(1, of=500)


def write(peer: DeltaSpark, path: Path, seed: int, length: int = 8) -> None:
    """A table with properties and statements drawn by a number."""
    draw = random.Random(seed)
    properties = ["'delta.checkpointInterval' = '4'", *(one for one in PROPERTIES if draw.random() < 0.4)]
    by = draw.choice(["", "PARTITIONED BY (p)", "CLUSTER BY (id)"])
    name = table(path)
    peer.sql(f"CREATE TABLE {name} (id BIGINT, p STRING, v BIGINT) USING delta {by} "
             f"TBLPROPERTIES ({', '.join(properties)})")
    after = 0
    for number in range(length):
        where = draw.choice(["p = 'a'", "v > 1", "id % 2 = 0"])
        values = ", ".join(f"({after + n}L, '{draw.choice('ab')}', {draw.randrange(4)}L)" for n in range(3))
        after += 3
        insert = f"INSERT INTO {name} VALUES {values}"
        statement = insert if number < 2 else draw.choice([
            insert, f"INSERT OVERWRITE {name} VALUES {values}", f"DELETE FROM {name} WHERE {where}",
            f"UPDATE {name} SET v = v + 1 WHERE {where}", f"OPTIMIZE {name}",
            f"MERGE INTO {name} t USING (SELECT * FROM VALUES {values} AS s(id, p, v)) s ON t.id = s.id - 4 "
            "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *",
            f"RESTORE TABLE {name} TO VERSION AS OF {number - 1}", f"VACUUM {name}",
            f"ALTER TABLE {name} ADD COLUMNS (c{number} INT)", f"REORG TABLE {name} APPLY (PURGE)",
            f"ALTER TABLE {name} SET TBLPROPERTIES ({draw.choice(PROPERTIES[:3])})",
            f"ALTER TABLE {name} ADD CONSTRAINT k{number} CHECK (id >= 0)"])
        try:
            peer.sql(statement)
        except PeerError as error:
            assert number > 1, error  # the table has more columns than the row, for one


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_proved_of_its_histories(seed: int, delta_spark: DeltaSpark, tmp_path: Path) -> None:
    write(delta_spark, tmp_path / "t", seed)
    report = dn.verify(tmp_path / "t", files="all")
    cycles = [cycle for cycle in report.cycles if cycle.certainty == "proved"]
    assert report.num_commits >= 4 and not report.proved and not cycles


def test_faults_in_its_histories_are_found(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    """Each fault that can be planted in any history is planted in a copy of one of its own."""
    name = table(tmp_path / "t")
    delta_spark.sql(f"CREATE TABLE {name} (id BIGINT, p STRING) USING delta "
                    "TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')")
    for number in range(2):
        delta_spark.sql(f"INSERT INTO {name} VALUES ({number}L, 'a'), ({number + 2}L, 'b')")
    delta_spark.sql(f"DELETE FROM {name} WHERE id = 1")
    delta_spark.sql(f"OPTIMIZE {name}")
    for fault in FAULTS:
        if fault.anywhere:
            made = tmp_path / "faults" / fault.name
            shutil.copytree(tmp_path / "t", made)
            versions = fault.plant(Broken(made))
            expected = (versions,) if isinstance(versions, int) else versions
            report = dn.verify(made, files="none")
            assert (fault.kind, fault.certainty, expected) in [
                (one.kind, one.certainty, one.versions) for one in report.findings], fault.name
