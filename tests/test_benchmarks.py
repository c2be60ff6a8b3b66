"""Benchmarks are run by people; that they can be run, and what they say of what they found, is held here."""

from __future__ import annotations

import doctest
import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.benchmarks import __main__ as runner
from tests.benchmarks import figures
from tests.benchmarks.figures import Figure, chart, times, write

FIGURES = [Figure("log", "open", "deltalake", 12.5, 20), Figure("log", "open at half", "deltalake", 14, 12),
           Figure("writers", "the slowest commit", "their median", 5, 6, at_most=True),
           Figure("log", "history", "deltalake", 3)]


def test_a_figure_says_whether_its_goal_is_met() -> None:
    assert [figure.verdict for figure in FIGURES] == ["MISSED", "met", "met", ""]
    assert [figure.wanted for figure in FIGURES] == ["≥ 20×", "≥ 12×", "≤ 6×", ""]
    assert Figure("log", "open", "deltalake", float("nan"), 20).verdict == "MISSED"


def test_what_failed_is_a_figure_that_says_why() -> None:
    found = times("log", "open", "deltalake", {"error": "no such table"}, {"ms": 1.0, "cpu": 1.0}, 2)
    assert found.verdict == "MISSED" and found.note == "no such table"


def test_by_the_clock_and_by_the_processor_are_two_ratios() -> None:
    theirs, ours = {"ms": 30.0, "cpu": 20.0}, {"ms": 10.0, "cpu": 10.0}
    assert times("log", "open", "x", theirs, ours).value == 3
    assert times("log", "open", "x", theirs, ours, by="cpu").value == 2


def test_they_are_written_as_a_table_and_as_a_chart_of_what_has_a_goal(tmp_path: Path) -> None:
    write(FIGURES, tmp_path / "out")
    assert (tmp_path / "out" / "figures.md").read_text("utf-8").count("\n") == 2 + len(FIGURES)
    drawn = json.loads((tmp_path / "out" / "figures.vl.json").read_text("utf-8"))
    points = drawn["layer"][1]["data"]["values"]
    assert [point["reached"] for point in points] == [0.625, 1.167, 1.2]
    assert drawn == json.loads(json.dumps(chart(FIGURES)))


def test_the_runner_runs_the_suites_that_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[tuple[object, ...]] = []

    def suite(name: str) -> object:
        def measure(*arguments: object) -> Iterator[Figure]:
            asked.append((name.rpartition(".")[2], *arguments))
            yield FIGURES[0]

        return SimpleNamespace(figures=measure)

    monkeypatch.setattr(runner, "import_module", suite)
    found = runner.main(["log", "--quick", "--rounds", "1", "--only", "open", "--out", str(tmp_path)])
    assert asked == [("log", True, 1, "open")] and found == [FIGURES[0]]
    assert "MISSED" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        runner.main(["lock"])
    assert "there is no suite lock; there are log, writers, commands" in capsys.readouterr().err


@pytest.mark.parametrize("name", runner.SUITES)
def test_every_suite_measures_nothing_where_nothing_is_asked_for(name: str) -> None:
    assert list(import_module(f"tests.benchmarks.{name}").figures(True, 1, "no such work")) == []


def test_examples() -> None:
    assert doctest.testmod(figures).failed == 0
