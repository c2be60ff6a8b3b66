"""What ``deltanb catalog check`` finds and ``sweep`` clears away, and what it never touches."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import deltanb as dn
from deltanb import errors
from deltanb.app import cli
from deltanb.catalog.store.tables import delta_tables, txn_changes
from deltanb.catalog.store.upkeep import check, sweep
from deltanb.log.commits import STAGED_FOLDER, commit_name
from deltanb.options import options

DAY = 86_400_000


@pytest.fixture
def catalog(new_url: Callable[[], str], tmp_path: Path) -> Iterator[dn.Catalog]:
    with dn.Catalog(new_url(), warehouse=tmp_path / "lake") as catalog:
        catalog.create_namespace("shop")
        catalog.create_table("shop.orders", {"id": [1]})
        yield catalog


def url_of(catalog: dn.Catalog) -> str:
    return catalog.store.database.engine.url.render_as_string(False)


def kinds(catalog: dn.Catalog) -> list[tuple[str, bool]]:
    return [(finding.kind, finding.is_fault) for finding in check(catalog.store)]


def log_of(catalog: dn.Catalog, name: str = "shop.orders") -> Path:
    return Path(catalog.table(name).path)


def left_unpublished(catalog: dn.Catalog, count: int = 1) -> None:
    """Commits whose publication failed."""
    log = log_of(catalog)
    table = catalog.table("shop.orders")
    in_the_way = log / commit_name(table.version + 1)
    in_the_way.write_bytes(b"{}")
    for _ in range(count):
        table.append({"id": [7]})
    in_the_way.unlink()


def stray(catalog: dn.Catalog, version: int, age: int = 2 * DAY) -> Path:
    """A staged file that a writer left behind which was killed before its ratification."""
    folder = log_of(catalog) / STAGED_FOLDER
    folder.mkdir(exist_ok=True)
    file = folder / f"{version:020}.11111111-2222-3333-4444-555555555555.json"
    file.write_bytes(b"{}")
    then = (options.clock() - age) / 1000
    os.utime(file, (then, then))
    return file


def test_a_sound_catalog_has_no_findings(catalog: dn.Catalog, capsys: pytest.CaptureFixture[str]) -> None:
    catalog.create_table("shop.events", "id bigint", format="iceberg")
    with catalog.transaction() as txn:
        txn.table("shop.orders").append({"id": [2]})
    assert kinds(catalog) == [], "whether the catalog has heard of its publication or not"
    catalog.table("shop.orders").append({"id": [3]})
    assert kinds(catalog) == [("staged", False)]
    assert cli.main(["catalog", "check", "--catalog", url_of(catalog)]) == 0
    assert "note  staged  shop.orders" in capsys.readouterr().out


def test_what_is_unpublished_is_published(catalog: dn.Catalog) -> None:
    left_unpublished(catalog, 2)
    assert kinds(catalog) == [("unpublished", False)] * 2
    done = sweep(catalog.store)
    assert done.published == {"shop.orders": 2} and not done.left
    row = catalog.store.tables.load("shop.orders")
    assert row.delta is not None and row.delta.published == 2
    assert {(log_of(catalog) / commit_name(v)).exists() for v in range(3)} == {True}
    assert {kind for kind, _ in kinds(catalog)} == {"staged"}
    assert sorted(catalog.table("shop.orders").to_arrow()["id"].to_pylist()) == [1, 7, 7]


def test_staged_files_go_after_the_grace_period(catalog: dn.Catalog) -> None:
    catalog.table("shop.orders").append({"id": [2]})
    published, = (log_of(catalog) / STAGED_FOLDER).iterdir()
    lost, dead = stray(catalog, 1), stray(catalog, 2)
    young = stray(catalog, 2, age=1000).rename(dead.with_name(f"{2:020}.young.json"))
    dead = stray(catalog, 2)
    assert kinds(catalog) == [("staged", False)] * 3, "readers that the catalog tells of it read it there"
    done = sweep(catalog.store)
    assert sorted(done.deleted) == sorted(map(str, (lost, dead)))
    assert young.exists() and published.exists()
    old = (options.clock() - 2 * DAY) / 1000
    os.utime(published, (old, old))
    assert sweep(catalog.store).deleted == (str(published),)
    assert sorted(catalog.table("shop.orders").to_arrow()["id"].to_pylist()) == [1, 2]


def test_the_file_of_a_commit_that_is_not_published_stays(catalog: dn.Catalog) -> None:
    (log_of(catalog) / commit_name(1)).write_bytes(b"{}")
    catalog.table("shop.orders").append({"id": [2]})
    ratified, = (log_of(catalog) / STAGED_FOLDER).iterdir()
    old = (options.clock() - 2 * DAY) / 1000
    os.utime(ratified, (old, old))
    assert kinds(catalog) == [("diverged", True)]
    done = sweep(catalog.store)
    assert not done.published and not done.deleted and "written past the catalog" in done.left[0]
    assert ratified.exists()


def test_a_writer_whose_file_was_claimed_is_refused(catalog: dn.Catalog) -> None:
    """It staged, then stood still for longer than the grace period; nothing of it may be ratified."""
    table = catalog.table("shop.orders")
    txn = table.start_transaction()
    files = txn.write_files({"id": [2]})
    committer = txn.committer
    stage = committer.stage

    def slowly(version: int, body: bytes):
        proposal = stage(version, body)
        (staged,) = (log_of(catalog) / STAGED_FOLDER).iterdir()
        old = (options.clock() - 2 * DAY) / 1000
        os.utime(staged, (old, old))
        assert sweep(catalog.store).deleted == (str(staged),)
        return proposal

    committer.stage = slowly
    with pytest.raises(errors.DataFileNotFound, match="took too long"):
        txn.commit(files, "WRITE")
    assert txn.status == "failed" and table.version == 0
    assert table.append({"id": [3]}) == 1
    claims: list[str] = []
    catalog.store.forget_claims(lambda path: bool(claims.append(path)))
    assert len(claims) == 1  # nobody can ratify version 1 any more, so the next sweep forgets it
    sweep(catalog.store)
    catalog.store.forget_claims(lambda path: bool(claims.append(path)))
    assert len(claims) == 1


def test_a_claim_whose_sweep_was_killed_is_finished_by_the_next(catalog: dn.Catalog) -> None:
    file = stray(catalog, 1)
    row = catalog.store.tables.load("shop.orders")
    assert catalog.store.claim_staged(row.table_id, [str(file)]) == [str(file)]
    assert kinds(catalog) == [("staged", False)]
    assert sweep(catalog.store).deleted == (str(file),) and not file.exists()
    assert kinds(catalog) == []


def test_a_table_whose_creation_was_cut_off_goes(
    catalog: dn.Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*args: object, **settings: object) -> None:
        raise errors.CommitOutcomeUnknown("killed")

    monkeypatch.setattr(catalog.store.tables, "register_delta", killed)
    now = options.clock()
    with dn.set_options(clock=lambda: now - 2 * DAY), pytest.raises(errors.CommitOutcomeUnknown):
        catalog.create_table("shop.late", {"id": [1]})
    monkeypatch.undo()
    (folder,) = (tmp_path / "lake" / "shop").glob("late-*")
    assert list(folder.rglob("*.parquet")) and ("garbage", False) in kinds(catalog)
    assert sweep(catalog.store).deleted == (str(folder),)
    assert not list(folder.rglob("*.*"))
    assert kinds(catalog) == []


def test_a_note_of_a_file_that_was_never_written_is_taken_out(catalog: dn.Catalog) -> None:
    """In a table's folder, and in that of one that was never made."""
    notes = [f"{catalog.warehouse.uri}/{name}/metadata/x.json" for name in ("made", "never_made")]
    catalog.create_table("shop.made", "id bigint", format="iceberg", location=f"{catalog.warehouse.uri}/made")
    catalog.store.garbage.record(notes, "metadata of a commit", 0)
    assert str(sweep(catalog.store, grace=0)) == "nothing to do" and catalog.store.garbage.due(2**60) == []


def test_a_table_that_was_registered_after_all_stays(catalog: dn.Catalog) -> None:
    place = catalog.table("shop.orders").path
    catalog.store.garbage.record([place], "a table that is being created", 0)
    assert sweep(catalog.store).deleted == () and catalog.table("shop.orders").to_arrow().num_rows == 1


def test_faults_are_named(catalog: dn.Catalog, capsys: pytest.CaptureFixture[str]) -> None:
    log = log_of(catalog)
    (log / commit_name(5)).write_bytes(b"{}")
    assert kinds(catalog) == [("foreign", True)]
    (log / commit_name(5)).unlink()
    left_unpublished(catalog)
    (staged,) = (log / STAGED_FOLDER).iterdir()
    staged.rename(log / "elsewhere")
    assert ("gap", True) in kinds(catalog)
    assert cli.main(["catalog", "check", "--catalog", url_of(catalog)]) == 1
    assert "FAULT  gap  shop.orders" in capsys.readouterr().out
    (log / "elsewhere").rename(staged)
    table = catalog.create_table("shop.events", "id bigint", format="iceberg")
    place = Path(table.loaded().metadata_location.removeprefix("file://"))
    place.rename(place.with_suffix(".gone"))
    assert ("missing", True) in kinds(catalog)
    place.with_suffix(".gone").rename(place)
    place.write_text(json.dumps({"format-version": 2}))
    assert ("missing", True) in kinds(catalog)


def test_a_missing_database_is_one_line_and_is_not_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for what in ("check", "sweep"):
        assert cli.main(["catalog", what, "--catalog", f"sqlite:///{tmp_path}/misspelt.db"]) == 2
        assert "there is no catalog at" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


DAMAGE = {
    "the time of the newest commit": (delta_tables.update().values(last_ict=1), "behind", "keeps the time 1"),
    "the version in the history": (txn_changes.update().values(after="9"), "behind", "ends at version 9"),
    "a version that was never ratified": (delta_tables.update().values(latest_version=3), "gap",
                                          "latest version 3, published 0"),
    "a version that was never published": (
        delta_tables.update().values(latest_version=3, published_version=3), "gap", "3 is published"),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_what_the_database_says_wrongly_is_found(catalog: dn.Catalog, what: str) -> None:
    catalog.table("shop.orders").append({"id": [2]})
    change, kind, message = DAMAGE[what]
    catalog.store.database.write(lambda connection: connection.execute(change) and None)
    faults = [finding for finding in check(catalog.store) if finding.is_fault]
    assert any(finding.kind == kind and message in finding.message for finding in faults), faults
    assert {finding.table for finding in faults} == {"shop.orders"}


def test_what_the_folder_lacks_is_found(catalog: dn.Catalog) -> None:
    table, log = catalog.table("shop.orders"), log_of(catalog)
    for number in (1, 2):
        table.append({"id": [number]})

    def faults() -> list[str]:
        return [str(finding).split(":")[0] for finding in check(catalog.store) if finding.is_fault]

    (log / commit_name(1)).rename(log / "elsewhere")
    assert "FAULT  gap  shop.orders" in faults()
    (log / "elsewhere").rename(log / commit_name(1))
    whole = (log / commit_name(0)).read_text()
    (log / commit_name(0)).write_text(whole.replace('"catalogManaged"', '"v2Checkpoint"'))
    with pytest.warns(errors.ChecksumMismatchWarning):
        (message,) = [finding.message for finding in check(catalog.store) if finding.is_fault]
    assert "has no catalogManaged" in message
    (log / commit_name(0)).write_text(whole)
    assert faults() == []
    log.rename(log.with_name("moved"))
    assert faults() == ["FAULT  missing  shop.orders"]


def test_times_that_do_not_rise_and_rows_of_no_table_are_found(catalog: dn.Catalog) -> None:
    table = catalog.table("shop.orders")
    table.append({"id": [2]})
    table.append({"id": [3]})
    file = log_of(catalog) / commit_name(1)
    first, _, rest = file.read_text().partition("\n")
    info = json.loads(first)
    info["commitInfo"]["inCommitTimestamp"] += DAY
    file.write_text(json.dumps(info) + "\n" + rest)
    assert ("time", True) in kinds(catalog)
    delta = delta_tables.insert().values(
        table_id="nobody", location="/nowhere", latest_version=0, published_version=0)
    catalog.store.database.write(lambda connection: connection.execute(delta))
    assert ("stray", True) in kinds(catalog)


def test_a_table_of_another_catalog_in_the_database_stays(catalog: dn.Catalog, tmp_path: Path) -> None:
    with dn.Catalog(url_of(catalog), warehouse=tmp_path / "lake", name="other") as other:
        other.create_namespace("shop")
        table = other.create_table("shop.orders", {"id": [1]})
        catalog.store.garbage.record([table.path], "a table that is being created", 0)
        assert sweep(catalog.store).deleted == () and table.to_arrow().num_rows == 1
