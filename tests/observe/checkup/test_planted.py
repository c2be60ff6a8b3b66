"""What is planted is found with its figures, and the command mends it and saves what it was to save."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

import deltanb as dn
from deltanb.observe.checkup import Checkup, Finding, checkup
from deltanb.observe.checkup.kinds import KINDS, as_json_schema
from tests.helpers import tree
from tests.observe.checkup.planting import PLANTS, DeltaRs, Ours, Plant, Writer

WRITERS: tuple[Writer, ...] = (Ours(), DeltaRs())
CASES = [pytest.param(plant, writer, id=f"{plant.name}-{writer.name}")
         for plant in PLANTS for writer in WRITERS if writer.name in plant.writers]


def made(plant: Plant, writer: Writer, folder: Path, is_found: bool = True) -> Path:
    """A planted table, in a folder that nobody in this process remembers anything of."""
    with dn.set_options(durability="none"):
        plant.make(writer, folder / "made", is_found)
        dn.flush()
    return (folder / "made").rename(folder / "t")


def found(report: Checkup, kind: str) -> Finding:
    """The finding of a kind."""
    (finding,) = [one for one in report.findings if one.kind == kind]
    return finding


def check_plant(plant: Plant, writer: Writer, folder: Path) -> None:
    path = made(plant, writer, folder)
    with dn.set_options(clock=plant.clock, durability="none"):
        before = tree(path)
        report = checkup(path)
        assert tree(path) == before, "nothing is written"
        finding = found(report, plant.kind)
        jsonschema.validate(json.loads(report.to_json()), as_json_schema())
        assert set(finding.figures) == set(KINDS[plant.kind].figures)
        assert finding.evidence and finding.reads >= 0 and finding.writes >= 0 and finding.saves

        exec(finding.command, {"table": dn.open(path)})

        dn.flush()
        after = checkup(path)
        assert plant.kind not in after.kinds, after.findings
        failures = [spot for spot in (*report.blind_spots, *after.blind_spots) if spot.kind == "check"]
        assert not failures
        saved = plant.saved(path, finding, after)
        assert saved.keys() & finding.saves.keys()
        for unit in saved.keys() & finding.saves.keys():
            expected = finding.saves[unit]
            least, most = expected * (1 - plant.tolerance), expected * (1 + plant.tolerance)
            is_packed_alike = writer.name == "ours" or unit != "bytes"  # others' files get our codec
            most = most if is_packed_alike else max(most, finding.reads)
            assert least <= saved[unit] <= most, (unit, finding)


@pytest.mark.parametrize(("plant", "writer"), CASES)
def test_a_command_saves_what_it_was_to_save(plant: Plant, writer: Writer, tmp_path: Path) -> None:
    check_plant(plant, writer, tmp_path)


@pytest.mark.parametrize(("plant", "writer"), CASES)
def test_a_near_miss_is_no_finding(plant: Plant, writer: Writer, tmp_path: Path) -> None:
    path = made(plant, writer, tmp_path, is_found=False)
    with dn.set_options(clock=plant.clock):
        report = checkup(path)
    assert plant.kind not in report.kinds, report.findings
    assert not [spot for spot in report.blind_spots if spot.kind == "check"]


def test_every_kind_is_planted() -> None:
    assert {plant.kind for plant in PLANTS} == set(KINDS)
