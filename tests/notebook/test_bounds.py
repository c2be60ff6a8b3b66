"""What every picture keeps to, however large the table: its size, its time, what it may touch."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import deltanb as dn
from deltanb.notebook import bundle
from deltanb.notebook.drawing import chart, html
from deltanb.notebook.views import registry as views
from deltanb.options import SeededIds
from deltanb.store.local import LocalStore
from deltanb.table.table import DeltaTable
from deltanb.text import formatting as units
from deltanb.text.display import Displayable
from tests.conftest import ROOT
from tests.notebook import large
from tests.notebook.looks import assert_consistent

FILES, MILLION = 100_000, 1_000_000
MAX_SECONDS = 0.05
SLACK = 5
"""Times are promised in tests/benchmarks/reprs.py, on a machine that does nothing else. Here they are only to
tell a picture that counts files one by one from one that does not: that takes seconds."""
TURNS = 12
HTML, VEGALITE = "text/html", "application/vnd.vegalite.v5+json"
DOORS = ("read", "status", "list_from", "list_names", "list_all", "open_input", "put", "put_if_absent")
NAMES = large.KINDS


class World:
    """A large table, one of every object that is shown of it, and what its store was asked for."""

    def __init__(self, folder: Path, files: int) -> None:
        self.asked: list[str] = []
        self.clock_was_read = 0
        path = large.make(folder, files)
        with pytest.MonkeyPatch.context() as patch, dn.set_options(
            clock=lambda: large.TIME, new_id=SeededIds(1), user_name="analyst"
        ):
            for door in DOORS:
                patch.setattr(LocalStore, door, self._counted(getattr(LocalStore, door)))
            self.table = DeltaTable.for_path(path)
            repr(self.table)
            self.asked_at_first = list(self.asked)
            self.fresh_text = str(self.table.snapshot)
            made = large.objects(self.table)
            self.objects = {name: make() for name, make in made.items()}
            self.asked.clear()
            self.bundles: dict[str, dict[str, Any]] = {}
            self.touched: dict[str, list[str]] = {}
            with dn.set_options(clock=self._tick):
                for name, obj in self.objects.items():
                    repr(obj)
                    str(obj)
                    self.bundles[name] = obj._repr_mimebundle_()
                    self.touched[name] = list(self.asked)
                    self.asked.clear()

    def _tick(self) -> int:
        self.clock_was_read += 1
        return large.TIME

    def _counted(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def counted(store: Any, name: str = "", *args: Any, **kwargs: Any) -> Any:
            self.asked.append(f"{method.__name__} {name}")
            return method(store, name, *args, **kwargs)

        return counted


@pytest.fixture(scope="module", params=[
    pytest.param(FILES, id="100k", marks=pytest.mark.thorough),
    pytest.param(MILLION, id="1M", marks=pytest.mark.slow)])
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> World:
    """A table of so many files, made once."""
    return World(tmp_path_factory.mktemp("large") / "orders", request.param)


def test_every_view_is_tried_here() -> None:
    assert {name.split(",")[0] for name in NAMES} == set(views.names())


@pytest.mark.parametrize("name", NAMES)
def test_picture_is_whole_and_small(world: World, name: str) -> None:
    obj, forms = world.objects[name], world.bundles[name]
    assert views.entry_of(obj) is views.entry_of(type(name.split(",")[0], (), {})())
    assert_consistent(obj)
    assert "cannot be shown" not in forms["text/plain"]
    assert len(forms.get(HTML, "").encode()) <= html.MAX_BYTES == 60_000
    assert len(json.dumps(forms.get(VEGALITE, ""))) <= chart.MAX_BYTES == 250_000
    assert HTML in forms or VEGALITE in forms


@pytest.mark.parametrize("name", NAMES)
def test_repr_is_one_line_and_print_is_the_sheet(world: World, name: str) -> None:
    obj = world.objects[name]
    if not isinstance(obj, Displayable):
        return  # a schema is its type in DDL, and shown as a tree
    line, sheet = repr(obj), str(obj)
    assert line.startswith(f"<{type(obj).__name__}") and line.endswith(">")
    assert "\n" not in line and units.width(line) <= units.MAX_COLUMNS
    assert sheet == obj._repr_mimebundle_()["text/plain"] == bundle.text(obj)
    is_number = isinstance(obj, int)  # what a command answers with stands for its version
    assert f"{obj}" == (str(int(obj)) if is_number else sheet) and f"{[obj]}" == f"[{line}]"


@pytest.mark.parametrize("name", NAMES)
def test_text_alone_where_the_display_is_text(world: World, name: str) -> None:
    with dn.set_options(display="text"):
        assert set(world.objects[name]._repr_mimebundle_()) == {"text/plain"}


@pytest.mark.parametrize("name", NAMES)
def test_picture_touches_nothing(world: World, name: str) -> None:
    assert world.touched[name] == []


def test_pictures_read_no_clock(world: World) -> None:
    assert world.clock_was_read == 0


def test_first_look_reads_the_log_alone(world: World) -> None:
    names = [asked.split(" ", 1)[1] for asked in world.asked_at_first]
    assert names and all(name.startswith("_delta_log/") for name in names)
    assert "about " in world.fresh_text  # the list of files stays unread


@pytest.mark.parametrize("name", NAMES)
def test_picture_is_quick(world: World, name: str) -> None:
    def seconds() -> float:
        start = time.process_time()
        world.objects[name]._repr_mimebundle_()
        return time.process_time() - start

    assert any(seconds() <= MAX_SECONDS * SLACK for _ in range(TURNS))


def test_no_picture_starts_spark_or_loads_an_engine(tmp_path: Path) -> None:
    code = f"""
import pathlib, sys
import deltanb as dn
from tests.notebook import large
table = dn.open(large.make(pathlib.Path({str(tmp_path / "orders")!r}), 100))
for make in large.objects(table).values():
    shown = make()
    assert "cannot be shown" not in str(shown), str(shown)
    shown._repr_mimebundle_()
print(sorted({{"pyspark", "altair", "py4j"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr


def test_an_object_that_breaks_is_shown_as_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Should a view fail all the same, the reason is shown: no picture raises."""

    def broken(obj: Any) -> Any:
        raise ValueError("no such thing")

    for name in views.names():
        monkeypatch.setitem(views._ENTRIES, name, views.Entry(broken))
        obj = type(name, (), {})()
        forms = bundle.mimebundle(obj)
        assert forms == {"text/plain": f"{name} cannot be shown\nValueError: no such thing"}
