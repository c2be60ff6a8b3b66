"""Tables of Delta Spark that need upkeep: found in them as in ours, and mended by the same commands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import deltanb as dn
from deltanb.observe.checkup import checkup
from tests.examples import every
from tests.observe.checkup.planting import PLANTS, Plant
from tests.observe.checkup.test_planted import check_plant, made
from tests.peers.delta_spark import DeltaSpark, table

pytestmark = [pytest.mark.slow, pytest.mark.spark]

ANY_PROPERTY = "spark.databricks.delta.allowArbitraryProperties.enabled"
CASES = every(9, [plant for plant in PLANTS if "spark" in plant.writers])


@pytest.fixture(autouse=True)
def names_of_databricks(delta_spark: DeltaSpark) -> Iterator[None]:
    """Table properties that Delta Spark does not know are taken, here and by no other test of the session."""
    delta_spark.sql(f"SET {ANY_PROPERTY} = true")
    yield
    delta_spark.sql(f"RESET {ANY_PROPERTY}")


class Spark:
    """Delta Spark, which draws the rows of :func:`~tests.observe.checkup.planting.rows` itself."""

    name = "spark"

    def __init__(self, peer: DeltaSpark) -> None:
        self.peer = peer

    def create(self, path: Path, partition_by: list[str], properties: Mapping[str, str]) -> None:
        by = f"PARTITIONED BY ({', '.join(partition_by)})" if partition_by else ""
        self.peer.sql(f"CREATE TABLE {table(path)} (id BIGINT, p STRING, v STRING) USING delta {by}"
                      + (f" TBLPROPERTIES ({_listed(properties)})" if properties else ""))

    def insert(self, path: Path, start: int, stop: int, p: str = "a") -> None:
        self.peer.sql(f"INSERT INTO {table(path)} {_rows(start, stop, p)}")

    def delete(self, path: Path, where: str) -> None:
        self.peer.sql(f"DELETE FROM {table(path)} WHERE {where}")

    def overwrite(self, path: Path, start: int, stop: int) -> None:
        self.peer.sql(f"INSERT OVERWRITE {table(path)} {_rows(start, stop, 'a')}")

    def configure(self, path: Path, properties: Mapping[str, str]) -> None:
        self.peer.sql(f"ALTER TABLE {table(path)} SET TBLPROPERTIES ({_listed(properties)})")

    def zorder(self, path: Path, column: str) -> None:
        self.peer.sql(f"OPTIMIZE {table(path)} ZORDER BY ({column})")


def _listed(properties: Mapping[str, str]) -> str:
    return ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())


def _rows(start: int, stop: int, p: str) -> str:
    return (f"SELECT /*+ COALESCE(1) */ id, '{p}' AS p, md5(CAST(id AS STRING)) AS v "
            f"FROM range({start}, {stop})")


@pytest.mark.parametrize("plant", CASES, ids=lambda plant: plant.name)
def test_a_command_saves_what_it_was_to_save(plant: Plant, delta_spark: DeltaSpark, tmp_path: Path) -> None:
    check_plant(plant, Spark(delta_spark), tmp_path)


@pytest.mark.parametrize("plant", CASES, ids=lambda plant: plant.name)
def test_a_near_miss_is_no_finding(plant: Plant, delta_spark: DeltaSpark, tmp_path: Path) -> None:
    path = made(plant, Spark(delta_spark), tmp_path, has_it=False)
    with dn.set_options(clock=plant.clock):
        report = checkup(path)
    assert plant.kind not in report.kinds, report.findings
    assert not [spot for spot in report.blind_spots if spot.kind in ("check", "operation-unknown")]
