"""What is planted is found with its figures, and the command mends it and saves what it was to save."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest

import deltanb as dn
from deltanb.observe.checkup import Checkup, Finding, checkup
from deltanb.observe.checkup.kinds import KINDS, as_json_schema
from deltanb.options import options
from deltanb.schema import properties
from tests.helpers import tree
from tests.observe.checkup.planting import PLANTS, DeltaRs, Ours, Plant, Writer

WRITERS: tuple[Writer, ...] = (Ours(), DeltaRs())
CASES = [pytest.param(plant, writer, id=f"{plant.name}-{writer.name}")
         for plant in PLANTS for writer in WRITERS if writer.name in plant.writers]


def made(plant: Plant, writer: Writer, folder: Path, has_it: bool = True) -> Path:
    """A planted table, in a folder that nobody in this process remembers anything of."""
    with dn.set_options(durability="none"):
        plant.make(writer, folder / "made", has_it)
        dn.flush()
    return (folder / "made").rename(folder / "t")


def finding_of(report: Checkup, kind: str) -> Finding:
    """The finding of a kind."""
    (finding,) = [one for one in report.findings if one.kind == kind]
    return finding


def is_of_case(finding: Finding, case: str) -> bool:
    """Whether a command is made by the template of a case."""
    gaps = dict.fromkeys(("columns", "size", "names"), "\0")
    template = KINDS[finding.kind].commands[case].format(**gaps)
    return re.fullmatch(re.escape(template).replace(re.escape("\0"), "[^()]+"), finding.command) is not None


def check_plant(plant: Plant, writer: Writer, folder: Path) -> None:
    path = made(plant, writer, folder)
    with dn.set_options(clock=plant.clock, durability="none"):
        before = tree(path)
        report = checkup(path)
        assert tree(path) == before, "nothing is written"
        finding = finding_of(report, plant.kind)
        jsonschema.validate(json.loads(report.to_json()), as_json_schema())
        assert set(finding.figures) == set(KINDS[plant.kind].figures)
        assert finding.evidence and finding.reads >= 0 and finding.writes >= 0 and finding.saves

        assert is_of_case(finding, plant.case)
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
    path = made(plant, writer, tmp_path, has_it=False)
    with dn.set_options(clock=plant.clock):
        report = checkup(path)
    assert plant.kind not in report.kinds, report.findings
    assert not [spot for spot in report.blind_spots if spot.kind == "check"]


SIZED = [plant for plant in PLANTS if "ours" in plant.writers
         and f"{plant.case}, sized".removeprefix(", ") in KINDS[plant.kind].commands]


@pytest.mark.parametrize("plant", SIZED, ids=lambda plant: plant.name)
def test_a_size_is_named_where_optimize_would_take_another(
    plant: Plant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a table with ``delta.tuneFileSizesForRewrites``, which OPTIMIZE does not follow by itself."""
    path = made(plant, Ours(), tmp_path)
    table = dn.open(path)
    size = properties.get(table.properties, "delta.targetFileSize") or options.target_file_size
    monkeypatch.setattr("deltanb.observe.checkup.kinds.REWRITE_TARGET", size)
    table.unset_properties(["delta.targetFileSize"], if_exists=True)
    table.set_properties({"delta.tuneFileSizesForRewrites": True})
    finding = finding_of(checkup(path), plant.kind)
    assert f"target_size={size})" in finding.command
    exec(finding.command, {"table": table})
    assert plant.kind not in checkup(path).kinds


def test_every_case_of_every_command_is_planted() -> None:
    planted = {(plant.kind, plant.case) for plant in PLANTS}
    planted |= {(plant.kind, f"{plant.case}, sized".removeprefix(", ")) for plant in SIZED}
    assert planted == {(kind.code, case) for kind in KINDS.values() for case in kind.commands}
