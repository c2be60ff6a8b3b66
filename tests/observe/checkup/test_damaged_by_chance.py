"""Logs damaged by chance: a checkup answers or says why not, a layout is refused by an error of ours."""

from __future__ import annotations

import random
import shutil
import warnings
from contextlib import suppress
from pathlib import Path

import pytest

import deltanb as dn
from deltanb.errors import DeltaError
from deltanb.observe.checkup import checkup
from tests.examples import first
from tests.observe.verify.histories import WRITERS
from tests.observe.verify.test_damaged import WAYS

SEEDS = first(4, of=100)
TRIALS = 10


@pytest.fixture(scope="module", params=WRITERS)
def history(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of which each trial damages a copy of the log."""
    path = tmp_path_factory.mktemp("whole") / "t"
    with dn.set_options(durability="none", checkpoints="inline"):
        WRITERS[request.param](path, 1)
    return path


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.filterwarnings("ignore")
def test_damage_is_a_blind_spot_and_no_error(seed: int, history: Path, tmp_path: Path) -> None:
    draw = random.Random(seed)
    for trial in range(TRIALS):
        path = tmp_path / f"t{trial}"
        shutil.copytree(history, path)
        file = draw.choice(sorted(one for one in (path / "_delta_log").iterdir() if one.stat().st_size))
        file.write_bytes(draw.choice(WAYS)(file.read_bytes(), draw))
        report = checkup(path)
        assert "cannot be shown" not in str(report) and report.to_json()
        with suppress(DeltaError), warnings.catch_warnings():
            table = dn.open(path)
            for column in table.schema.names:
                with suppress(DeltaError):
                    assert "cannot be shown" not in str(table.layout(column))
