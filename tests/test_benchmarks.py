"""Benchmarks are run by people; that they can be run, and what they say of what they found, is held here."""

from __future__ import annotations

import doctest
import html
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.benchmarks import __main__ as runner
from tests.benchmarks import figures, peaks, report
from tests.benchmarks.figures import Curve, Figure, attempt, chart, curves, times, write

FIGURES = [Figure("log", "open", "deltalake", 12.5, 20), Figure("log", "open at half", "deltalake", 14, 12),
           Figure("writers", "the slowest commit", "their median", 5, 6, at_most=True),
           Figure("log", "history", "deltalake", 3)]


def test_a_figure_says_whether_its_goal_is_met() -> None:
    assert [figure.verdict for figure in FIGURES] == ["MISSED", "met", "met", ""]
    assert [figure.goal_text for figure in FIGURES] == ["≥ 20×", "≥ 12×", "≤ 6×", ""]
    assert Figure("log", "open", "deltalake", float("nan"), 20).verdict == "MISSED"


def test_what_failed_is_a_figure_that_says_why() -> None:
    figure = times("log", "open", "deltalake", {"error": "no such table"}, {"ms": 1.0, "cpu": 1.0}, 2)
    assert figure.verdict == "MISSED" and figure.note == "no such table"


def test_by_the_clock_and_by_the_processor_are_two_ratios() -> None:
    theirs, ours = {"ms": 30.0, "cpu": 20.0}, {"ms": 10.0, "cpu": 10.0}
    assert times("log", "open", "x", theirs, ours).value == 3
    assert times("log", "open", "x", theirs, ours, by="cpu").value == 2


def specification(page: Path) -> Any:
    """What a page draws."""
    [spec] = re.findall(r"const spec = (\{.*\});", page.read_text("utf-8"))
    return json.loads(spec)


def test_they_are_written_as_a_table_and_as_a_chart_of_what_has_a_goal(tmp_path: Path) -> None:
    write(FIGURES, tmp_path / "out")
    report = (tmp_path / "out" / "figures.md").read_text("utf-8")
    assert report.count("\n| ") == len(FIGURES) and "2 of 3 goals met\nmissed: log: open, against" in report
    assert not (tmp_path / "out" / "curves.html").exists()
    drawn = specification(tmp_path / "out" / "figures.html")
    points = drawn["layer"][1]["data"]["values"]
    assert [point["reached"] for point in points] == [0.625, 1.167, 1.2]
    assert drawn == json.loads(json.dumps(chart(FIGURES)))


def test_what_grows_is_drawn_as_lines(tmp_path: Path) -> None:
    points = Curve("files", ((10, 1.5), (100, 9.0)))
    grown = Figure("growth", "open", "itself", 1.1, 1.5, at_most=True, curve=points)
    write([*FIGURES, grown], tmp_path)
    drawn = specification(tmp_path / "curves.html")
    assert drawn["data"]["values"] == [
        {"work": "open", "over": "files", "size": 10, "ms": 1.5},
        {"work": "open", "over": "files", "size": 100, "ms": 9.0}]
    assert drawn == json.loads(json.dumps(curves([grown])))


def test_a_measurement_that_fails_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> Iterator[Figure]:
        yield FIGURES[1]
        raise OSError("no space left")

    def suite(name: str) -> object:
        return SimpleNamespace(figures=lambda *_: attempt("log", "open", fails) if "log" in name else fails())

    monkeypatch.setattr(runner, "import_module", suite)
    measured = runner.main(["log", "writers", "--out", str(tmp_path)])
    assert [(figure.suite, figure.work, figure.verdict) for figure in measured] == [
        ("log", "open at half", "met"), ("log", "open", "MISSED"),
        ("log", "open at half", "met"), ("writers", "the rest of the suite", "MISSED")]
    assert "OSError: no space left" in (tmp_path / "figures.md").read_text("utf-8")
    assert "2 of 4 goals met" in capsys.readouterr().out


def test_what_was_measured_before_an_interrupt_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object) -> Iterator[Figure]:
        yield FIGURES[0]
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "import_module", lambda name: SimpleNamespace(figures=stopped))
    with pytest.raises(KeyboardInterrupt):
        runner.main(["log", "--out", str(tmp_path)])
    assert "| open | deltalake |" in (tmp_path / "figures.md").read_text("utf-8")


def test_a_peak_of_memory_is_held_beside_the_one_that_was_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peaks, "RECORD", tmp_path / "peaks.json")
    first = Figure("log", "open", "deltalake", 12.5, 20, mb=100)
    assert peaks.beside(first) == first and not first.is_above
    peaks.record([first, Figure("log", "history", "deltalake", 3)])
    for mb, peak in ((109, "109 MB"), (111, "111 MB, above 100")):
        figure = peaks.beside(replace(first, mb=mb))
        assert figure.peak == peak and figure.is_above == ("above" in peak)
    assert "peak" not in runner.summary([first]) and "log: open: 111 MB" in runner.summary([figure])


def test_the_recorded_peaks_are_of_suites_that_run() -> None:
    known = json.loads(peaks.RECORD.read_text("utf-8"))
    assert known and {key.partition(": ")[0] for key in known} <= set(runner.SUITES)
    assert all(value > 0 for value in known.values())


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
    measured = runner.main(["log", "--quick", "--rounds", "1", "--only", "open", "--out", str(tmp_path)])
    assert asked == [("log", True, 1, "open")] and measured == [FIGURES[0]]
    assert "MISSED" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        runner.main(["lock"])
    assert f"there is no suite lock; there are {', '.join(runner.SUITES)}" in capsys.readouterr().err
    for part in (["--quick"], ["--only", "open"]):
        with pytest.raises(SystemExit):
            runner.main(["log", *part, "--record"])
        assert f"--record goes without {part[0]}" in capsys.readouterr().err


@pytest.mark.parametrize("name", runner.SUITES)
def test_every_suite_measures_nothing_where_nothing_is_asked_for(name: str) -> None:
    assert list(import_module(f"tests.benchmarks.{name}").figures(True, 1, "no such work")) == []


def test_examples() -> None:
    assert doctest.testmod(figures).failed == 0


# -- the report ----------------------------------------------------------------------------------------------

@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty record."""
    monkeypatch.setattr(report, "RECORD", tmp_path / "report.json")
    return tmp_path / "report.json"


def test_a_recorded_run_is_read_as_it_was_measured(recorded: Path) -> None:
    curve = Curve("files", ((10, 1.5), (100, 9.0)))
    grown = Figure("log", "grows", "itself", 1.25, 1.5, at_most=True, note="a", mb=95, curve=curve)
    measured = [*FIGURES, grown]
    report.record("log", measured, "python -m tests.benchmarks log", 0.04)
    run = json.loads(recorded.read_text("utf-8"))["log"]
    assert report.figures_of(run) == measured
    assert run["command"] == "python -m tests.benchmarks log" and run["versions"]["pyarrow"]
    assert "cores of" in run["machine"] and run["date"].startswith("20") and run["busy"] == 0.04


def test_what_failed_is_in_the_report_without_a_value(recorded: Path) -> None:
    failed = list(attempt("log", "open", lambda: [1 / 0]))
    report.record("log", failed, "python -m tests.benchmarks log", 0.04)
    runs = json.loads(recorded.read_text("utf-8"))
    assert "| open |  | – | ≥ 1× | missed |  | ZeroDivisionError: division by zero |" in report.report(runs)
    assert report.kinds_of(runs["log"]) == []


def test_a_busy_machine_is_named(recorded: Path) -> None:
    report.record("log", FIGURES[:1], "python -m tests.benchmarks log", 0.04)
    runs = json.loads(recorded.read_text("utf-8"))
    for busy, is_named in ((0.1, False), (1.2, True)):
        runs["log"] |= {"busy": busy, "cores": 2}
        assert ("others used 1.2 of its 2 cores" in report.report(runs)) == is_named


def test_cores_of_others_are_those_that_work() -> None:
    working = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        assert report.cores_of_others(0.2) > 0.1
    finally:
        working.kill()
        working.wait()


def test_the_runner_records_each_suite_and_reports_without_measuring(
    recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peaks, "RECORD", tmp_path / "peaks.json")
    monkeypatch.setattr(report, "cores_of_others", lambda: 0.3)
    suite = SimpleNamespace(figures=lambda *_: [FIGURES[1]])
    monkeypatch.setattr(runner, "import_module", lambda name: suite)
    runner.main(["log", "scans", "--rounds", "2", "--record", "--out", str(tmp_path)])
    runs = json.loads(recorded.read_text("utf-8"))
    assert {suite: run["command"] for suite, run in runs.items()} == {
        suite: f"python -m tests.benchmarks {suite} --rounds 2" for suite in ("log", "scans")}
    assert [(len(run["figures"]), run["busy"]) for run in runs.values()] == [(1, 0.3), (1, 0.3)]
    monkeypatch.setattr(runner, "_measured", None)
    written: list[bool] = []
    monkeypatch.setattr(report, "write", lambda: written.append(True))
    assert runner.main(["--report"]) == [] and written == [True]


def test_the_page_has_what_is_recorded_and_a_picture_of_each_goal() -> None:
    runs = json.loads(report.RECORD.read_text("utf-8"))
    assert runs and runs.keys() <= set(runner.SUITES)
    assert report.PAGE.read_text("utf-8") == report.page(runs), "python -m tests.benchmarks --report"
    for suite, run in runs.items():
        goals = [figure for figure in report.figures_of(run) if figure.goal and figure.is_measured]
        assert ("goals" in report.kinds_of(run)) == bool(goals)
        for scheme in report.SCHEMES:
            for kind in report.kinds_of(run):
                assert report.picture(suite, kind, scheme).exists()
            if not goals:
                continue
            drawn = html.unescape(report.picture(suite, "goals", scheme).read_text("utf-8"))
            points = [f"work: {figure.work} ({figure.against})" for figure in goals]
            assert [point for point in points if point not in drawn] == []
