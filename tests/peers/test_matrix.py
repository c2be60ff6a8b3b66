"""Every table feature between this library and its peers: each cell of the matrix is tried.

What was found is recorded in ``matrix.json``, from which ``docs/peers.md`` has its tables. A usual run tries
a part again, ``--thorough`` all; ``--update-golden --thorough`` records all anew.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

import deltanb as dn
from deltanb.schema.features import FEATURES
from tests.examples import every
from tests.pages import assert_part
from tests.peers.delta_spark import DeltaSpark, Unavailable
from tests.peers.duckdb_delta import DuckDB

pytest.importorskip("deltalake")
pytest.importorskip("polars")

from tests.peers.matrix import DIRECTIONS, Ours, Recording, as_markdown, read_by, written_by
from tests.peers.matrix_features import INACTIVE, USES
from tests.peers.matrix_peers import TITLES, DeltaRs, Duck, Peer, Polars, Spark

HOW = "pytest --update-golden --thorough tests/peers/test_matrix.py records it"
CASES = list(itertools.product(DIRECTIONS, USES))
READ, WRITTEN = ([(direction, feature) for feature in USES] for direction in DIRECTIONS)
KEYS = list(itertools.product(DIRECTIONS, USES, TITLES))
PAGE = Path(__file__).resolve().parents[2] / "docs" / "peers.md"


@pytest.fixture(scope="module")
def recording(request: pytest.FixtureRequest) -> Iterator[Recording]:
    recorded = Recording()
    yield recorded
    if request.config.getoption("--update-golden"):
        recorded.write(KEYS)


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Ours]:
    """Our table of a feature, made once for all who read it."""
    return cache(lambda feature: Ours.made(feature, tmp_path_factory.mktemp("ours")))


@pytest.fixture(scope="module")
def duckdb() -> Iterator[DuckDB]:
    """A session of DuckDB that knows Delta tables."""
    try:
        session = DuckDB()
    except Unavailable as reason:
        pytest.skip(str(reason))
    with session:
        yield session


@dataclass(frozen=True)
class Trial:
    """What the trial of a cell needs besides the peer."""

    recording: Recording
    ours: Callable[[str], Ours]
    folder: Path
    update: bool

    def check(self, peer: Peer, direction: str, feature: str) -> None:
        """Try a cell beside its recording; what an error says is another version's own matter."""
        key = direction, feature, peer.title
        cell = read_by(peer, self.ours(feature)) if direction == "read" else \
            written_by(peer, feature, self.folder)
        if self.update:
            self.recording[key] = cell
        if self.recording.versions[peer.title] == peer.version:
            assert cell == self.recording[key], HOW
        else:
            assert cell["does"] == self.recording[key]["does"], HOW


@pytest.fixture
def trial(recording: Recording, ours: Callable[[str], Ours], tmp_path: Path, update_golden: bool
          ) -> Iterator[Trial]:
    """A trial in an empty folder."""
    with dn.set_options(durability="none"):
        yield Trial(recording, ours, tmp_path, update_golden)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize(("direction", "feature"), every(14, CASES))
def test_delta_spark(trial: Trial, delta_spark: DeltaSpark, direction: str, feature: str) -> None:
    trial.check(Spark(delta_spark), direction, feature)


@pytest.mark.parametrize(("direction", "feature"), READ + every(4, WRITTEN))
def test_delta_rs(trial: Trial, direction: str, feature: str) -> None:
    trial.check(DeltaRs(), direction, feature)


@pytest.mark.parametrize(("direction", "feature"), READ + every(5, WRITTEN))
def test_polars(trial: Trial, direction: str, feature: str) -> None:
    trial.check(Polars(), direction, feature)


@pytest.mark.parametrize(("direction", "feature"), READ + every(6, WRITTEN))
def test_duckdb(trial: Trial, duckdb: DuckDB, direction: str, feature: str) -> None:
    trial.check(Duck(duckdb), direction, feature)


def test_every_feature_is_tried_with_every_peer(recording: Recording, update_golden: bool) -> None:
    assert USES.keys() == FEATURES.keys(), "each feature has an entry in tests/peers/matrix_features.py"
    assert {name for name, one in FEATURES.items() if one.write == "while inactive"} == INACTIVE
    assert recording.keys() == set(KEYS), HOW


WRONG = {("written", "columnMapping", "DuckDB")}
"""Its files have the columns' own names, so that nobody, DuckDB included, reads the rows back."""


def test_no_other_peer_reads_or_writes_wrong_rows(recording: Recording) -> None:
    assert {key for key in KEYS if "rows" in recording[key]} == WRONG


def test_where_we_refuse_a_table_of_a_peers_we_name_the_feature(recording: Recording) -> None:
    refusals = [recording[key] for key in KEYS if recording[key].get("ours", "yes") != "yes"]
    assert refusals and all(cell["our"]["names it"] for cell in refusals)


def test_the_page_has_the_matrix(recording: Recording, update_golden: bool) -> None:
    assert_part(PAGE, "matrix", as_markdown(recording), update_golden)
