"""A conflict is told wherever its exception is printed: in scripts, logs, pytest, from other processes."""

from __future__ import annotations

import copy
import io
import logging
import pickle
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

from deltanb import errors
from deltanb.errors import ConcurrentAppendException, DeltaConcurrentModificationException
from tests.notebook import samples
from tests.test_imports import loaded_after

ROOT = Path(__file__).resolve().parent.parent
SCENE = '''
import deltanb as dn
from deltanb.testing import MemoryStore

def lose():
    store = MemoryStore("memory:///ducks")
    table = dn.create(store, {"id": [1, 2], "day": ["mon", "tue"]}, partition_by="day")
    return dn.race(table, {
        "ann": lambda t: t.append({"id": [3], "day": ["mon"]}),
        "ben": lambda t: t.delete("day = 'mon'")}).outcomes["ben"]
'''
PARTS = (
    "ConcurrentAppendException: Transaction conflict detected.",
    "your DELETE on ducks read files where day = 'mon', and version 1 by\n  ann added 1 file there. Nothing",
    "predicate     day = 'mon'",
    "WRITE by ann",
    ".parquet  day=mon ← matches your predicate",
    "What you can do\n",
    "- Run it again: a new transaction reads version 1",
)
"""What everybody is to be told: what happened, the predicate, the winner, its file, the way out."""


def failed(**data: object) -> ConcurrentAppendException:
    return ConcurrentAppendException("someone was faster", conflict=samples.append(), version=18, **data)


def is_told(text: str) -> None:
    for part in PARTS:
        assert part in text, f"{part!r} is not in\n{text}"
    assert text.count("What you can do") == 1


needs_notes = pytest.mark.skipif(not errors.HAS_NOTES, reason="the layout is that of notes")


@needs_notes
def test_a_script_prints_it_below_the_traceback(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", SCENE + "raise lose()"], capture_output=True, text=True,
                          cwd=ROOT)
    assert done.returncode == 1
    is_told(done.stderr)


@needs_notes
def test_pytest_prints_it(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(SCENE + "\ndef test_it():\n    raise lose()\n", "utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider", "--rootdir", tmp_path,
         tmp_path / "test_it.py"], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 1
    failures, _, _ = done.stdout.partition("short test summary")  # where CI is set it repeats the message
    is_told(failures.replace("\nE   ", "\n"))


@needs_notes
def test_a_logged_exception_says_it() -> None:
    written, logger = io.StringIO(), logging.Logger("jobs")  # of no other library's class
    logger.addHandler(logging.StreamHandler(written))
    scene: dict[str, object] = {}
    exec(SCENE, scene)
    try:
        raise scene["lose"]()  # type: ignore[operator]
    except DeltaConcurrentModificationException:
        logger.exception("the job failed")
    is_told(written.getvalue())


def test_the_note_has_all_advice_where_the_text_of_a_cell_cuts_it() -> None:
    error = failed()
    [note] = error.__notes__
    assert str(error.conflict).endswith("…")
    assert note.endswith(
        "- Under WriteSerializable this passes only if version 18 is a blind append; it is a\n  MERGE.\n"
        "Explained by: deltanb help concurrent-append")
    assert max(map(len, note.splitlines())) <= 88


@pytest.mark.parametrize("make", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
def test_it_goes_where_the_error_goes(make: object) -> None:
    error = failed()
    errors.add_note(error, "the second try")
    again = make(error)  # type: ignore[operator]
    assert again.__notes__ == error.__notes__ and len(again.__notes__) == 2
    fresh = make(failed())  # type: ignore[operator]
    assert fresh.__notes__ == failed().__notes__
    fresh.__notes__ = []
    assert fresh.__notes__ == []


def test_other_notes_survive_pickling() -> None:
    error = errors.MaxCommitRetriesExceeded("too many")
    assert not hasattr(pickle.loads(pickle.dumps(error)), "__notes__")
    errors.add_note(error, "see the log")
    assert pickle.loads(pickle.dumps(error)).__notes__ == ["see the log"]


def test_an_error_without_a_conflict_says_nothing_more() -> None:
    assert ConcurrentAppendException("someone was faster").__notes__ == []


def test_who_only_catches_it_does_not_pay_for_the_text() -> None:
    loaded = loaded_after(SCENE + "import pickle\npickle.dumps(lose())\nstr(lose())")
    assert "deltanb.observe.race" in loaded
    assert not [name for name in loaded if name.startswith("deltanb.notebook")]


def test_a_text_that_cannot_be_made_is_no_second_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone() -> None:
        raise ImportError("the interpreter is going down")

    monkeypatch.setattr("deltanb.text.display.views", gone)
    assert "someone was faster" in "".join(traceback.format_exception(failed()))


def test_on_python_3_10_it_is_a_part_of_the_message(monkeypatch: pytest.MonkeyPatch) -> None:
    error = failed()
    assert str(error) == "someone was faster" or not errors.HAS_NOTES
    monkeypatch.setattr(errors, "HAS_NOTES", False)
    assert str(error) == f"someone was faster\n{error.__notes__[0]}"
    assert error.message == "someone was faster"
