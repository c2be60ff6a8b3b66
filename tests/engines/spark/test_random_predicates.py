"""Random conditions mean what Spark means by them: many of them, in one job."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from deltanb.errors import InvalidPredicate, UnsupportedPredicate
from deltanb.schema.types import from_arrow
from deltanb.sql import predicates
from tests.examples import many
from tests.random_predicates import ROWS, Sql, conditions

pytestmark = [pytest.mark.spark, pytest.mark.slow]

AT_ONCE = 100  # conditions in one query


def drawn() -> list[Sql]:
    """Different conditions, the same at every run."""
    by_sql: dict[str, Sql] = {}

    @given(conditions())
    @settings(many, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    def collect(condition: Sql) -> None:
        by_sql[condition.ours] = condition

    collect()
    return list(by_sql.values())


def test_rows_are_those_that_spark_finds(spark: Any) -> None:
    schema, answers, refused = from_arrow(ROWS.schema), {}, {}
    every = drawn()
    for condition in every:
        try:
            parsed = predicates.parse(condition.ours, schema)
            answers[condition] = ids(ROWS.filter(parsed.to_expression(ROWS.schema)))
        except (InvalidPredicate, UnsupportedPredicate) as error:
            refused[condition] = error
    assert len(answers) > 0.7 * len(every)
    rows = spark.createDataFrame(ROWS)
    wrong = []
    asked = list(answers)
    for start in range(0, len(asked), AT_ONCE):
        some = asked[start:start + AT_ONCE]
        by_spark = rows.selectExpr("id", *(f"({c.spark}) AS c{n}" for n, c in enumerate(some))).toArrow()
        for n, condition in enumerate(some):
            expected = ids(by_spark.filter(by_spark[f"c{n}"]))
            if answers[condition] != expected:
                wrong.append(f"{condition}: found {sorted(answers[condition])}, Spark {sorted(expected)}")
    assert not wrong, "\n".join(wrong)
    for condition, error in refused.items():
        if isinstance(error, InvalidPredicate):  # Spark, too, finds a literal there that is no such value
            with pytest.raises(Exception, match=r"CAST_INVALID_INPUT|OVERFLOW|OUT_OF_RANGE"):
                rows.selectExpr(condition.ours).toArrow()


def ids(rows: pa.Table) -> set[int]:
    return set(rows["id"].to_pylist())
