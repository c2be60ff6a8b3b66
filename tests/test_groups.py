"""Which tests share a worker, and in which order they begin."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import groups

PARTS = [("tests/a.py", ()), ("tests/a.py", ("spark",)), ("tests/b.py", ()), ("tests/b.py", ("spark",)),
         ("tests/c.py", ("spark", "peer")), ("tests/d.py", ()), ("tests/a.py", ())]


class Item:
    """A test of a file, with fixtures."""

    def __init__(self, number: int, file: str, fixtures: tuple[str, ...]) -> None:
        self.number, self.path, self.nodeid, self.fixturenames = number, Path(file), f"{file}::test", fixtures
        self.marks: dict[str, Any] = {}

    def add_marker(self, mark: Any) -> None:
        self.marks[mark.name] = mark.mark

    def get_closest_marker(self, name: str) -> Any:
        return self.marks.get(name)


@pytest.fixture
def durations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A record of its own, and two services."""
    path = tmp_path / "durations.json"
    path.write_text(json.dumps({"spark": 50, "tests/d.py": 9, "tests/b.py": 7, "tests/gone.py": 3}))
    monkeypatch.setattr(groups, "DURATIONS", path)
    monkeypatch.setattr(groups, "_services", {"spark", "peer"})
    return path


def arranged() -> list[Any]:
    """All of them, in the order in which they begin."""
    items: list[Any] = [Item(number, *part) for number, part in enumerate(PARTS)]
    groups.arrange(items)
    return items


def test_a_service_is_a_group_and_so_is_every_file_and_the_longest_begins(durations: Path) -> None:
    items = arranged()
    assert [(item.number, groups.group_of(item)) for item in items] == [
        (1, "spark"), (3, "spark"), (5, "tests/d.py"), (2, "tests/b.py"),
        (4, "peer"), (0, "tests/a.py"), (6, "tests/a.py")]


def test_a_long_test_without_an_entry_begins_before_short_ones(durations: Path) -> None:
    items: list[Any] = [Item(0, "tests/a.py", ()), Item(1, "tests/e.py", ())]
    items[1].marks["slow"] = pytest.mark.slow.mark
    groups.arrange(items)
    assert [item.number for item in items] == [1, 0]


def test_a_service_without_an_entry_takes_as_long_as_the_files_that_ask_for_it(durations: Path) -> None:
    durations.write_text(json.dumps({"tests/a.py": 5, "tests/b.py": 6, "tests/d.py": 10}))
    assert [groups.group_of(item) for item in arranged()] == [
        "spark", "spark", "tests/d.py", "tests/b.py", "tests/a.py", "tests/a.py", "peer"]


def test_the_scheduler_takes_the_file_where_a_test_has_no_group() -> None:
    pytest.importorskip("xdist")
    scheduler = groups.pytest_xdist_make_scheduler(
        SimpleNamespace(getvalue=lambda name: ["popen"] if name == "tx" else "loadgroup"), None)
    scope = scheduler._split_scope
    assert scope("tests/a.py::Kind::test[x@y]") == "tests/a.py" == scope("tests/a.py::test")
    assert scope("tests/a.py::test[x@y]@spark") == "spark"


def test_seconds_of_groups_that_ran_are_written_and_others_stay(durations: Path, tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "b.py").touch()
    recorder = groups.Recorder()
    for nodeid, seconds in (("tests/b.py::one", 3.2), ("tests/b.py::two[@]", 1.0), ("tests/c.py::test", 1.4),
                            ("tests/c.py::test@peer", 30.0)):
        recorder.pytest_runtest_logreport(SimpleNamespace(nodeid=nodeid, duration=seconds))  # type: ignore
    recorder.pytest_sessionfinish(SimpleNamespace(config=SimpleNamespace(rootpath=tmp_path)))  # type: ignore
    assert json.loads(durations.read_text()) == {"spark": 50, "peer": 30, "tests/b.py": 4}
