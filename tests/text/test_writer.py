"""Who wrote: the person, the machine and the job, in all commits and views, unless somebody wishes not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import deltanb as dn
from deltanb.options import options, writer_name
from deltanb.testing import MemoryStore
from deltanb.text import writer
from tests.helpers import last_commit

ME = "ann@laptop:nightly"


@pytest.fixture(autouse=True)
def me(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Ann at her laptop runs nightly.py, and has set nothing."""
    for name in (writer.NOTEBOOK_VARIABLE, "DELTANB_USER", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LOGNAME", "ann")
    monkeypatch.setattr("socket.gethostname", lambda: "laptop.example.org")
    runs(monkeypatch, __file__="/jobs/nightly.py")
    for part in (writer._person, writer._machine):
        part.cache_clear()
    yield
    for part in (writer._person, writer._machine):
        part.cache_clear()


def runs(monkeypatch: pytest.MonkeyPatch, module: str | None = None, **names: Any) -> None:
    """The process runs a main module with these names; ``module`` is what ``python -m`` was asked for."""
    main = ModuleType("__main__")
    main.__dict__.update(names, __spec__=module and type("Spec", (), {"name": module}))
    monkeypatch.setitem(sys.modules, "__main__", main)


@pytest.mark.parametrize(("main", "session", "job"), [
    ({"__file__": "/jobs/nightly.py"}, None, "nightly"),
    ({"__file__": "/jobs/nightly.py"}, "/notes/bank.ipynb", "nightly"),  # begun by a notebook
    ({"__file__": "/jobs/nightly.v2.py"}, None, "nightly.v2"),
    ({"__file__": "/jobs/load/__main__.py", "module": "__main__"}, None, "load"),
    ({"__file__": "/lib/jobs/load.py", "module": "jobs.load"}, None, "jobs.load"),
    ({"__file__": "/lib/jobs/__main__.py", "module": "jobs.__main__"}, None, "jobs"),
    ({}, "/notes/bank.ipynb", "bank"),
    ({"__vsc_ipynb_file__": "C:\\Users\\ann\\bank.ipynb"}, None, "bank"),
    ({"__file__": "/venv/bin/deltanb"}, None, "shell"),
    ({"__file__": "/lib/deltanb/__main__.py", "module": "deltanb.__main__"}, None, "shell"),
    ({"__file__": "/jobs/" + "x" * 200 + ".py"}, None, "x" * writer.MAX_PART),
    ({"__file__": "/jobs/\udcff\n.py"}, None, "??"),
])
def test_the_job_is_what_runs(
    main: dict[str, Any], session: str | None, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs(monkeypatch, **main)
    if session is not None:
        monkeypatch.setenv(writer.NOTEBOOK_VARIABLE, session)
    assert writer.name_process() == f"ann@laptop:{job}"


@pytest.mark.parametrize(("loaded", "program"), [
    ((), "python"), (("IPython",), "ipython"), (("IPython", "ipykernel"), "notebook")])
def test_where_nothing_has_a_name_the_program_has_one(
    loaded: tuple[str, ...], program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs(monkeypatch)
    for name in ("IPython", "ipykernel"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    for name in loaded:
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    assert writer.name_process() == f"ann@laptop:{program}"


def test_a_user_without_a_name_has_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> str:
        raise KeyError("getpwuid(): uid not found: 1000690000")

    monkeypatch.setattr("getpass.getuser", fail)
    assert writer.name_process().startswith("user")


@pytest.mark.parametrize(("option", "variable", "name"), [
    (None, None, ME), (None, "etl", "etl"), (None, "", None),
    ("cleanup", None, "cleanup"), ("cleanup", "etl", "cleanup"), ("cleanup", "", "cleanup"),
    (False, None, None), (False, "etl", None), ("", None, None), ("", "etl", None),
])
def test_option_variable_and_default(
    option: Any, variable: str | None, name: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if variable is not None:
        monkeypatch.setenv("DELTANB_USER", variable)
    with dn.set_options(user_name=option):
        assert writer_name() == name
        table = dn.create(MemoryStore(), {"id": [1]})
    (info,) = last_commit(table, dn.actions.CommitInfo)
    assert info.user_name == name
    if name is None:
        assert "userName" not in info.to_json()
        assert "ann" not in info.to_json()


def test_a_lesson_names_no_person_and_no_machine() -> None:
    with dn.teaching(seed=1):
        assert writer_name() == "you"
    with dn.set_options(user_name="ada"), dn.teaching(seed=1):
        assert writer_name() == "ada"
    with dn.teaching(seed=1, user_name=False):
        assert writer_name() is None
    assert options.user_name is None


def lost() -> dn.errors.DeltaError:
    """Ann's DELETE lost to her own append."""
    table = dn.create(MemoryStore("memory:///lake/orders"), {"id": [1, 2]})
    txn = table.start_transaction()
    read = txn.filter_files()
    table.append({"id": [3]})
    with pytest.raises(dn.errors.ConcurrentAppendException) as caught:
        txn.commit([file.remove() for file in read], "DELETE")
    caught.value.table = table  # type: ignore[attr-defined]
    return caught.value


WHO_WON: dict[str, Callable[[Any], Any]] = {
    "conflict": lambda error: error.conflict,
    "history": lambda error: error.table.history(),
    "table": lambda error: error.table,
    "timeline": lambda error: error.table.timeline(),
    "commit": lambda error: error.table.commit(1),
    "post-mortem": lambda error: dn.post_mortem(error.table, error=error),
    "time travel": lambda error: error.table.time_travel(),
    "conflicts": lambda error: error.table.history().conflicts(),
    "blame": lambda error: error.table.blame(),
    "bisection": lambda error: dn.bisect(error.table, "id < 3"),
}


@pytest.mark.parametrize("view", WHO_WON)
def test_every_view_names_the_winner_and_never_the_library(view: str) -> None:
    """Forms cut long names: of this one the job is left everywhere."""
    forms = WHO_WON[view](lost())._repr_mimebundle_()
    for form in ("text/plain", "text/html"):
        assert ME in forms[form], forms["text/plain"]
    assert "by deltanb" not in forms["text/plain"]


@pytest.mark.parametrize("view", WHO_WON)
def test_nobody_is_named_where_somebody_wishes_so(view: str) -> None:
    with dn.set_options(user_name=False):
        forms = WHO_WON[view](lost())._repr_mimebundle_()
    for form in forms.values():
        assert "ann@" not in form
    assert "deltanb" not in forms["text/plain"]


def test_a_failed_commit_says_who_won_in_its_text() -> None:
    assert f"version 1 by {ME} added 1 file" in str(lost().conflict).replace("\n ", "")


def test_a_transaction_of_a_catalog_says_who_committed_and_on_which_table_it_failed(tmp_path: Path) -> None:
    with dn.Catalog(f"sqlite:///{tmp_path}/c.db", warehouse=tmp_path / "lake") as catalog:
        catalog.create_namespace("shop")
        for name in ("orders", "totals"):
            catalog.create_table(f"shop.{name}", {"n": [1]})
        assert {entry.principal for entry in catalog.history()} == {ME}
        txn = catalog.transaction()
        txn.table("shop.orders").append({"n": [2]})
        txn.table("shop.totals").update({"n": "n + 1"})
        catalog.table("shop.totals").update({"n": "n + 2"})
        with pytest.raises(dn.errors.ConcurrentAppendException) as caught:
            txn.commit()
        for form in ("text/plain", "text/html"):
            words = caught.value.conflict._repr_mimebundle_()[form]
            assert "your UPDATE on shop.totals read" in words
            assert f"version 1 by {ME}" in words.replace("\n ", "")


def test_a_script_is_named_by_its_file(tmp_path: Path) -> None:
    script = tmp_path / "nightly.py"
    script.write_text("from deltanb.options import writer_name\nprint(writer_name())\n", "utf-8")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    person, _, job = done.stdout.strip().rpartition(":")
    assert job == "nightly"
    assert person.startswith("ann@")
