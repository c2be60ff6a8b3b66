"""Statements of Delta's SQL, run by ``dn.sql`` and by Delta Spark: the same rows, tables and commits.

What Delta Spark did is recorded in ``sql_delta_spark.json``, so that all statements are compared without a
JVM. A usual run lets Delta Spark run a few of them again, ``--thorough`` all; ``--update-golden --thorough``
records all anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltanb as dn
from deltanb.engines.spark import session
from tests.examples import every
from tests.pages import assert_part
from tests.peers.delta_spark import VERSION, DeltaSpark
from tests.peers.sql_differences import DIFFERENCES, as_markdown, differing, intended
from tests.peers.sql_results import AS_USUAL, Recording, Rows, outcome
from tests.peers.sql_statements import CASES, Case

PAGE = Path(__file__).resolve().parents[2] / "docs" / "sql.md"
HOW = "pytest --update-golden --thorough tests/peers/test_sql_delta_spark.py records it"
NUMBERS = {case.name: number for number, case in enumerate(CASES)}


BY_SPARK = (r"(UPDATE|DELETE) .*\(SELECT id FROM \{s\}\)$|\(SELECT 1 FROM|SET v = v / 0|m\['k'\] = 1|"
            r"AS s ON false|ON t\.v < s\.v|merge, nested: ")
"""In the names of cases of which a part needs Spark, as the commands do that they call."""


def number(case: Case) -> str:
    return f"{case.kind}-{NUMBERS[case.name]}"


@pytest.fixture(scope="module")
def recording(request: pytest.FixtureRequest) -> Iterator[Recording]:
    recorded = Recording()
    yield recorded
    if request.config.getoption("--update-golden"):
        recorded.write(VERSION, list(NUMBERS))


def test_all_statements_are_recorded(recording: Recording, update_golden: bool) -> None:
    assert len(NUMBERS) == len(CASES) >= 200
    if not update_golden:
        assert recording.version == VERSION, HOW
        assert recording.outcomes.keys() == NUMBERS.keys(), HOW


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("case", every(40, CASES), ids=number)
def test_delta_spark_does_what_was_recorded(
    recording: Recording, delta_spark: DeltaSpark, case: Case, tmp_path: Path, update_golden: bool
) -> None:
    theirs = outcome(case, tmp_path, lambda text: delta_spark.arrow(text, **AS_USUAL))
    if update_golden:
        recording.outcomes[case.name] = theirs
    assert recording.outcomes[case.name] == theirs, HOW


# -- dn.sql beside the recording -----------------------------------------------------------------------

def is_run_by_spark(case: Case) -> bool:
    """Whether a condition or a value is more than deltanb does without Spark."""
    return re.search(BY_SPARK, case.name) is not None


def run(text: str) -> pa.Table | Rows | None:
    """Run a statement; the rows of one that asks."""
    result = dn.sql(text)
    match result:
        case dict():
            return [result]
    return result.to_arrow() if hasattr(result, "to_arrow") else None


class StartsSpark(Exception):
    """Raised in place of a session."""


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """No session runs, and whoever begins one fails."""
    def refuse(*request: Any) -> None:
        raise StartsSpark

    monkeypatch.setattr(session, "running_session", lambda: None)
    monkeypatch.setattr(session, "_session", refuse)


@pytest.mark.parametrize("case", CASES, ids=number)
@pytest.mark.usefixtures("no_spark")
def test_sql_does_what_delta_spark_does(recording: Recording, case: Case, tmp_path: Path) -> None:
    if is_run_by_spark(case):
        with pytest.raises(StartsSpark):
            check(case, tmp_path, recording)
    else:
        check(case, tmp_path, recording)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("case", list(filter(is_run_by_spark, CASES)), ids=number)
@pytest.mark.usefixtures("spark")
def test_so_it_does_where_it_needs_spark(recording: Recording, case: Case, tmp_path: Path) -> None:
    check(case, tmp_path, recording)


def check(case: Case, folder: Path, recording: Recording) -> None:
    """Hold ``dn.sql`` to what Delta Spark did, but for what is listed to differ."""
    with dn.set_options(durability="none"):
        ours = outcome(case, folder, run)
    differences = differing(ours, recording.outcomes[case.name])
    assert differences.keys() == intended(case), differences


def test_every_difference_is_about_a_statement_and_has_a_reason() -> None:
    for row in DIFFERENCES:
        assert any(map(row.is_about, CASES)), row.cases
        assert row.differs and row.reason.endswith(".")


def test_the_page_lists_the_differences(update_golden: bool) -> None:
    assert_part(PAGE, "differences", as_markdown(DIFFERENCES), update_golden)
