"""Each failed commit leaves a page where one is wanted: whole in itself, named safely, never a failure."""

from __future__ import annotations

import logging
import os
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import deltanb as dn
from deltanb import errors
from deltanb.observe import report
from deltanb.options import REPORT_VARIABLE, report_folder, set_options
from deltanb.testing import Fail, MemoryStore, ScriptedStore
from deltanb.transaction.drive import watching
from tests.test_imports import loaded_after

DAYS = {"id": [1, 2], "day": ["mon", "tue"]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where reports are wanted; nothing is there yet."""
    reports = tmp_path / "jobs" / "reports"
    set_options(report=reports)
    return reports


def pages(folder: Path) -> list[Path]:
    """What the folder holds: reports and nothing else."""
    return sorted(folder.iterdir()) if folder.exists() else []


def lose(store: Any = None) -> BaseException:
    """A DELETE loses to an append; its error."""
    table = dn.create(store or MemoryStore("memory:///lake/flights"), DAYS, partition_by="day")
    race = dn.race(table, {"ann": lambda t: t.append({"id": [3], "day": ["mon"]}),
                           "ben": lambda t: t.delete("day = 'mon'")})
    error = race.outcomes["ben"]
    assert isinstance(error, errors.ConcurrentAppendException)
    return error


class Parts(HTMLParser):
    """What a page is made of: its text, and whatever would make a browser fetch or run something."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.words, self.reaches, self.tags = "", [], set[str]()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag in ("script", "link", "iframe", "object", "embed", "base", "form", "img"):
            self.reaches.append(tag)
        self.reaches += [f"{tag} {key}" for key, _ in attrs
                         if key.startswith("on") or key in ("src", "href", "srcset", "xlink:href", "action")]

    def handle_data(self, data: str) -> None:
        self.words += data


def read(page: Path) -> Parts:
    text = page.read_text("utf-8")
    parts = Parts(text)
    assert parts.reaches == []
    assert not re.search(r"url\(|@import|<script", text)
    assert text.startswith(report.FIRST_LINE)
    assert "default-src 'none'" in text.replace("&#x27;", "'")
    assert "color-scheme:light dark" in text and "prefers-color-scheme:dark" in text
    return parts


def test_a_conflict_leaves_the_conflict_and_the_commits_around_it(folder: Path) -> None:
    error = lose()
    [page] = pages(folder)
    parts = read(page)
    for words in ("ConcurrentAppend: DELETE on flights",
                  "your DELETE on flights read files where day = 'mon', and",
                  "WRITE by ann", "← matches your predicate", "What you can do", "Run it again",
                  "The commits around it", "2 commits by 2 writers, v0 to v1", "1 transaction failed",
                  "memory:///lake/flights", str(error)):
        assert words in parts.words, words
    assert "svg" in parts.tags


def test_log_and_traceback_name_it(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    error: Any = lose()
    [page] = pages(folder)
    [record] = [r for r in caplog.records if str(page) in r.getMessage()]
    assert record.levelno == logging.WARNING and record.name == "deltanb.transaction"
    assert "A failed commit (ConcurrentAppendException): its report is" in record.getMessage()
    assert error.__notes__[1:] == [f"The report of this commit is {page}"]


def test_only_the_commits_around_it_are_read(folder: Path) -> None:
    table = dn.create(MemoryStore(), DAYS)
    for n in range(20):
        table.append({"id": [n], "day": ["wed"]})
    with pytest.raises(errors.ConcurrentAppendException):
        loses(table)
    parts = read(pages(folder)[0])
    assert "v15 to v21  7 commits" in parts.words


def loses(table: dn.DeltaTable) -> None:
    """A transaction that read the whole table commits after an append."""
    txn = table.start_transaction()
    files = list(txn.filter_files())
    table.append({"id": [3], "day": ["mon"]})
    txn.commit([file.remove() for file in files], "UPDATE")


def test_too_many_lost_races_leave_one(folder: Path) -> None:
    table = dn.create(MemoryStore(), DAYS)
    txn = table.start_transaction()
    files = txn.write_files({"id": [3], "day": ["mon"]})
    table.append({"id": [4], "day": ["mon"]})
    with set_options(max_commit_attempts=0), pytest.raises(errors.MaxCommitRetriesExceeded) as caught:
        txn.commit(files, "WRITE")
    [page] = pages(folder)
    assert page.name.endswith(f"-v1-MaxCommitRetriesExceeded-{txn.txn_id}.html")
    parts = read(page)
    assert "v1 to WRITE" in parts.words and "tried 1 times" in parts.words
    assert caught.value.__notes__ == [f"The report of this commit is {page}"]


def test_an_unknown_outcome_leaves_one(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = ScriptedStore(MemoryStore())
    table = dn.create(store, DAYS)
    store.script.extend([Fail()] * 10)
    with pytest.raises(errors.CommitOutcomeUnknown) as caught:
        table.append({"id": [3], "day": ["mon"]})
    [page] = pages(folder)
    parts = read(page)
    assert "outcome unknown" in parts.words and caught.value.txn_id in parts.words
    assert "A commit whose outcome is unknown (CommitOutcomeUnknown): its report is" in caplog.text


def test_a_put_that_is_refused_leaves_one(folder: Path) -> None:
    def refuse(*_: Any) -> bool:
        raise errors.StorageError("the disk is read-only")

    store = ScriptedStore(MemoryStore())
    table = dn.create(store, DAYS)
    store.script.append(refuse)
    with pytest.raises(errors.StorageError):
        table.append({"id": [3], "day": ["mon"]})
    assert "the disk is read-only" in read(pages(folder)[0]).words


def test_a_commit_without_conflict_checks_leaves_one(folder: Path) -> None:
    table = dn.create(MemoryStore(), DAYS)
    txn = table.start_transaction()
    table.append({"id": [3], "day": ["mon"]})
    with pytest.raises(errors.ConcurrentWriteException):
        txn.commit_large([], "RESTORE")
    assert "ConcurrentWrite: RESTORE" in read(pages(folder)[0]).words


def test_a_stepper_leaves_one(folder: Path) -> None:
    table = dn.create(MemoryStore(), DAYS)
    txn = table.start_transaction()
    files = list(txn.filter_files())
    stepper = txn.stepper([file.remove() for file in files], "UPDATE")
    table.append({"id": [3], "day": ["mon"]})
    stepper.run()
    assert isinstance(stepper.error, errors.ConcurrentAppendException)
    assert len(pages(folder)) == 1


def test_a_transaction_of_a_catalog_leaves_one_for_all_of_its_tables(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy", reason="the catalog is an extra: pip install 'deltanb[catalog]'")

    def order(txn: Any) -> None:
        txn.table("shop.orders").append({"n": [2]})
        txn.table("shop.totals").update({"n": "n + 1"})

    with dn.Catalog(f"sqlite:///{tmp_path}/c.db", warehouse=tmp_path / "lake") as catalog:
        catalog.create_namespace("shop")
        for name in ("orders", "totals"):
            catalog.create_table(f"shop.{name}", {"n": [1]})
        error = dn.race(catalog, {"ann": order, "ben": order}).outcomes["ben"]
    [page] = pages(folder)
    parts = read(page)
    for words in ("ConcurrentAppend: a transaction of catalog default", "none of 2 tables committed",
                  "your UPDATE on shop.totals read the whole table", "3 transactions on 2 tables",
                  "What you can do"):
        assert words in parts.words, words
    assert error.__notes__[1:] == [f"The report of this commit is {page}"]


def test_what_was_given_up_or_committed_leaves_none(folder: Path) -> None:
    table = dn.create(MemoryStore(), DAYS)
    table.append({"id": [3], "day": ["mon"]})

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    token = watching.set(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            table.append({"id": [4], "day": ["mon"]})
    finally:
        watching.reset(token)
    assert pages(folder) == []


# -- where, whether, and under which name ----------------------------------------------------------


def test_the_environment_asks_for_it_unless_the_option_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(REPORT_VARIABLE, str(tmp_path / "env"))
    lose()
    assert len(pages(tmp_path / "env")) == 1
    with set_options(report=str(tmp_path / "option")):
        lose()
    with set_options(report=False):
        lose()
    assert len(pages(tmp_path / "env")) == len(pages(tmp_path / "option")) == 1
    monkeypatch.setenv(REPORT_VARIABLE, "")
    assert report_folder() is None


def test_none_is_wanted_by_default_and_nothing_is_loaded_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(REPORT_VARIABLE, raising=False)
    assert report_folder() is None
    loaded = loaded_after("from tests.observe.test_report import lose; import sys; "
                          "del sys.modules['deltanb.observe.report']; lose()")
    assert "deltanb.transaction.failed" in loaded and "deltanb.observe.report" not in loaded


@pytest.mark.parametrize("folder_value", ["", 3, True, b"reports", "s3://lake/reports", "a\0b"])
def test_what_is_no_folder_is_refused(folder_value: Any) -> None:
    with pytest.raises(errors.InvalidArgument, match="option report="):
        set_options(report=folder_value)


def test_the_same_failure_has_the_same_name(folder: Path) -> None:
    for _ in range(2):
        with dn.teaching(seed=7):
            lose()
    [page] = pages(folder)
    assert re.fullmatch(r"deltanb-flights-v1-ConcurrentAppend-[0-9a-f-]{36}\.html", page.name)


@pytest.mark.parametrize(("name", "written"), [
    ("..", ".."), ("a b\x1b[2J", "a_b_2J"), ("<b>&'\"", "_b_"), ("x" * 300, "x" * report.MAX_PART),
    ("表", "_"), ("flights?sig=secret", "flights")])
def test_a_name_is_safe_whatever_the_table_is_called(folder: Path, name: str, written: str) -> None:
    root = f"https://host/lake/{name}"
    lose(MemoryStore(root))
    [page] = pages(folder)
    assert page.name.startswith(f"deltanb-{written}-v1-ConcurrentAppend-")
    assert page.parent == folder
    parts = read(page)
    assert "secret" not in parts.words and "\x1b" not in parts.words and "b" not in parts.tags - {"b"}


def test_a_folder_keeps_the_newest(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "MAX_REPORTS", 3)
    folder.mkdir(parents=True)
    (folder / "deltanb-mine.html").write_text("<!doctype html><p>somebody's own page", "utf-8")
    (folder / "notes.txt").write_text("mine", "utf-8")
    lose()
    [first] = [page for page in pages(folder) if "-v1-" in page.name]
    os.utime(first, (1, 1))
    os.utime(folder / "deltanb-mine.html", (0, 0))
    for _ in range(3):
        lose()
    names = {page.name for page in pages(folder)}
    assert first.name not in names and {"deltanb-mine.html", "notes.txt"} <= names
    assert sum("-v1-" in name for name in names) == 3


# -- what goes wrong -------------------------------------------------------------------------------


def test_a_report_that_cannot_be_written_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("in the way", "utf-8")
    with set_options(report=tmp_path / "file"):
        error: Any = lose()
    assert len(error.__notes__) == 1
    [record] = [r for r in caplog.records if "cannot be written" in r.getMessage()]
    assert record.levelno == logging.WARNING and "FileExistsError" in record.getMessage()


def test_nothing_half_written_is_left(folder: Path, monkeypatch: pytest.MonkeyPatch,
                                      caplog: pytest.LogCaptureFixture) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    lose(MemoryStore())
    assert pages(folder) == [] and "No space left on device" in caplog.text


def test_a_log_that_cannot_be_read_leaves_the_rest_of_the_page(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(*_: Any, **__: Any) -> Any:
        raise errors.InvalidTable("commit 1 is damaged")

    monkeypatch.setattr(report.CommitTimeline, "of", damaged)
    table = dn.create(MemoryStore(), DAYS)
    with pytest.raises(errors.ConcurrentAppendException):
        loses(table)
    parts = read(pages(folder)[0])
    assert "They cannot be read: InvalidTable: commit 1 is damaged" in parts.words
    assert " read the whole table" in parts.words
