"""Commits to Unity Catalog: what befalls a request, counted requests, other writers, and what is refused."""

from __future__ import annotations

import errno
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sqlalchemy", reason="the catalog is an extra: pip install 'deltanb[catalog]'")
pytest.importorskip("httpx")

import deltanb as dn
from deltanb import errors
from deltanb.catalog.delta.managed import ManagedCommitter
from deltanb.catalog.store.names import TableName
from deltanb.catalog.unity.client.auth import auth_of
from deltanb.log.commits import STAGED_FOLDER, commit_name
from tests.catalog.unity.clients import MAINTENANCE, RELEASES, catalog_of, publishing_nothing
from tests.catalog.unity.fake import Unity
from tests.catalog.unity.fake_faults import (
    LOST_ANSWER,
    LOST_REQUEST,
    Answer,
    Asked,
    Does,
    Serve,
    after,
    interrupt,
    no_server,
    play,
    refusal,
    too_many_requests,
    unavailable,
)
from tests.catalog.unity.test_auth import CLIENT, URL, TokenUrl, token_url
from tests.helpers import ids, tree

__all__ = ["token_url"]
UPDATE = "updateTable"


@pytest.fixture(autouse=True)
def unsynced() -> Iterator[None]:
    with dn.set_options(durability="none"):
        yield


@pytest.fixture(params=RELEASES)
def unity(request: pytest.FixtureRequest, tmp_path: Path) -> Unity:
    unity = Unity(tmp_path / "unity", request.param)
    unity.maintenance = MAINTENANCE
    return unity


@pytest.fixture
def shop(unity: Unity) -> dn.Catalog:
    catalog = catalog_of(unity)
    catalog.create_namespace("shop")
    catalog.create_table("shop.orders", {"id": [1]})
    return catalog


def staged_files(table: dn.DeltaTable) -> set[str]:
    folder = Path(table.path) / STAGED_FOLDER
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


def unpublished(unity: Unity) -> list[int]:
    """The versions that the server still has."""
    tail = catalog_of(unity).store.load(TableName.of("shop.orders")).tail
    return [commit.version for commit in tail.commits]


def commits(unity: Unity, table: dn.DeltaTable) -> list[bytes]:
    """The table as a third party sees it, from its folder and the server."""
    loaded = catalog_of(unity).table("shop.orders")
    return [loaded.log.commits.read(version) for version in range(loaded.version + 1)]


# -- what befalls a request --------------------------------------------------------------------------------

STATE_UNKNOWN = (500, "CommitStateUnknownException")


def ended(asked: Asked, serve: Serve) -> Answer:
    """The first token of an OAuth client has ended."""
    is_first = asked.headers["authorization"] == "Bearer hush-1"
    return refusal(401, "NotAuthorizedException") if is_first else serve()


FAULTS: dict[str, Does] = {
    "lost request": LOST_REQUEST, "lost answer": LOST_ANSWER,
    "500, nothing done": STATE_UNKNOWN, "500, done": after(STATE_UNKNOWN),
    "502": Answer(502, "bad gateway"), "502, done": after(Answer(502, "bad gateway")),
    "503": unavailable(), "503, later": unavailable(2), "503, done": after(unavailable()),
    "429": too_many_requests(), "429, later": too_many_requests(3),
    "409 of a lock": (409, "UpdateRequirementConflictException"),
    "no JSON": after(Answer(200, "<html>sign in</html>")), "401 of a token": ended,
}
"""What may befall one proposal, and is mended by itself."""


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_commit_lands_once_whatever_befalls_its_request(
    unity: Unity, shop: Any, fault: str, times: int, token_url: TokenUrl
) -> None:
    table = shop.table("shop.orders")
    shop.store.connection.auth = auth_of(URL, **CLIENT)
    unity.script(UPDATE, *[FAULTS[fault]] * times)
    table.append({"id": [2]})
    table.append({"id": [3]})
    assert len(token_url.requests) == (2 if fault == "401 of a token" else 1)
    assert ids(table) == [1, 2, 3] and table.version == 2
    assert len(set(commits(unity, table))) == 3 and table.verify(files="all").is_sound
    assert staged_files(table) <= {each["file-name"] for each in unity.table("main.shop.orders")["rows"]} | {
        asked.actions["add-commit"]["commit"]["file-name"] for asked in unity.requests
        if asked.operation == UPDATE}


@pytest.mark.parametrize("loading", ["answers", "interrupted, too", "no server"])
@pytest.mark.parametrize("done", [True, False])
def test_a_commit_that_is_interrupted_says_whether_it_landed(
    unity: Unity, shop: dn.Catalog, done: bool, loading: str
) -> None:
    table = shop.table("shop.orders")

    def interrupted_here(asked: Asked, serve: Serve) -> Answer:
        if loading != "answers":
            unity.script("loadTable", interrupt if loading == "interrupted, too" else no_server, forever=True)
        return play(after(interrupt) if done else interrupt, asked, serve)

    unity.script(UPDATE, interrupted_here)
    with pytest.raises(KeyboardInterrupt) as interrupted:
        table.append({"id": [2]})
    unity.clear()
    (note,) = interrupted.value.__notes__
    is_there = ids(catalog_of(unity).table("shop.orders")) == [1, 2]
    if loading == "answers":
        assert is_there, "one that is free is proposed again, so that it is known"
        assert "was committed despite the interruption" in note
    else:
        assert is_there is done and "it is unknown whether version 1 is this commit" in note
    table.append({"id": [3]})
    assert ids(table) == ([1, 2, 3] if is_there else [1, 3])


def test_a_server_that_is_gone_for_a_while_took_nothing(unity: Unity, shop: dn.Catalog) -> None:
    table = shop.table("shop.orders")
    before = tree(Path(table.path))
    unity.script(lambda _: True, no_server, forever=True)
    for work in (lambda: table.append({"id": [2]}), table.to_arrow, lambda: shop.table("shop.orders")):
        with pytest.raises(errors.StorageError, match="cannot be (reached|asked)"):
            work()
    unity.clear()
    unity.script(UPDATE, no_server, forever=True)
    with pytest.raises(errors.StorageError, match="cannot be (reached|asked)"):
        table.append({"id": [2]})
    unity.clear()
    assert {name for name in tree(Path(table.path)) if "_staged" in name} == {
        name for name in before if "_staged" in name}
    table.append({"id": [3]})
    assert ids(table) == [1, 3]


def test_what_cannot_be_published_on_the_way_is_no_commit(
    unity: Unity, shop: dn.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server wants to see commits published, and the disk is full."""
    table, other = shop.table("shop.orders"), catalog_of(unity).table("shop.orders")
    with publishing_nothing(monkeypatch):
        for number in range(2, 12):
            other.append({"id": [number]})
    with monkeypatch.context() as patched:
        def fail(*_: object) -> None:
            raise OSError(errno.ENOSPC, "no space left")

        patched.setattr(ManagedCommitter, "_put_into_folder", fail)
        with pytest.raises(errors.StorageError, match="no space left"):
            table.append({"id": [12]})
    assert ids(catalog_of(unity).table("shop.orders")) == list(range(1, 12))
    table.append({"id": [13]})
    assert ids(table) == [*range(1, 12), 13]


@pytest.mark.parametrize("latest", [1, 3, 5])
def test_a_report_of_before_a_catalog_was_set_back_is_not_made(unity: Unity, shop: Any, latest: int) -> None:
    """It would say of others' commits, or of those that are still to come, that they are in the folder."""
    table = shop.table("shop.orders")
    for number in (2, 3, 4):
        table.append({"id": [number]})
    state = unity.table("main.shop.orders")
    assert shop.store.published_of(state["id"]) == 3
    state["rows"], state["marker"] = [
        {**state["rows"][-1], "version": version, "file-name": f"{version:020}.restored.json"}
        for version in range(1, latest + 1)], None
    shop.store.load(TableName.of("shop.orders"))
    assert shop.store.published_of(state["id"]) is None
    unity.clear()
    shop.store.report(TableName.of("shop.orders"), state["id"])
    assert unity.counts[UPDATE] == 0 and unpublished(unity) == list(range(1, latest + 1))


ANSWERS: dict[str, Does] = {"loading fails": unavailable(), "loading is lost": LOST_ANSWER}


@pytest.mark.parametrize("settled", [True, False])
@pytest.mark.parametrize("loading", ANSWERS)
@pytest.mark.parametrize("fault", [name for name in FAULTS if "done" in name or "lost" in name])
def test_nothing_is_deleted_while_nobody_knows(
    unity: Unity, shop: dn.Catalog, fault: str, loading: str, settled: bool
) -> None:
    table = shop.table("shop.orders")
    before = set(commits(unity, table))
    unity.script(UPDATE, FAULTS[fault], forever=True)
    unity.script("loadTable", *[ANSWERS[loading]] * 2 if settled else [ANSWERS[loading]], forever=not settled)
    try:
        table.append({"id": [2]})
    except errors.CommitOutcomeUnknown:
        files = staged_files(table)
        assert files
    except errors.StorageError:
        pass
    unity.clear()
    assert ids(catalog_of(unity).table("shop.orders")) in ([1], [1, 2])
    assert before <= set(commits(unity, table))
    table.append({"id": [3]})
    assert not table.verify(files="all").proved  # a file of the first one may be left over


@pytest.mark.parametrize("times", [1, 2])
def test_a_request_that_comes_late_is_the_same_commit(unity: Unity, shop: dn.Catalog, times: int) -> None:
    """A proposal that is settled by proposing it again may still be on its way, and come behind it."""
    table, late = shop.table("shop.orders"), []

    def delayed(asked: Asked, serve: Serve) -> Answer:
        late.append(serve)
        return Answer(504, "timeout")

    unity.script(UPDATE, *[delayed] * times)
    table.append({"id": [2]})
    assert len(late) == times and {serve().status for serve in late} <= {200, 409}
    table.append({"id": [3]})
    assert {serve().status for serve in late} <= {200, 409, 500}  # 500: what was staged twice is gone
    assert ids(catalog_of(unity).table("shop.orders")) == [1, 2, 3] and table.version == 2


def test_a_token_that_ends_behind_a_commit_says_nothing_of_it(unity: Unity, shop: Any) -> None:
    """The server has taken it, and answered that it is busy; the token URL fails then."""
    table, auth = shop.table("shop.orders"), shop.store.connection.auth

    def end(asked: Asked, serve: Serve) -> Answer:
        serve()
        shop.store.connection.auth = Ended()
        return unavailable()

    unity.script(UPDATE, end)
    with pytest.raises(errors.DeltaError):
        table.append({"id": [2]})
    shop.store.connection.auth = auth
    assert ids(catalog_of(unity).table("shop.orders")) == [1, 2]
    table.append({"id": [3]})
    assert ids(table) == [1, 2, 3]


class Ended:
    """Who has no token any more."""

    def header(self) -> str:
        raise errors.StorageError("the token URL cannot be reached")

    def renewed(self, refused: str | None = None) -> bool:
        return False


def test_a_table_that_is_renamed_behind_an_open_commit_loses_none(
    unity: Unity, shop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if unity.version == "0.5":
        pytest.skip("release 0.5 renames no table")
    table, other = shop.table("shop.orders"), catalog_of(unity)

    def fail_once(asked: Asked, serve: Serve) -> Answer:
        return Answer(502, "bad gateway")

    def rename(asked: Asked, serve: Serve) -> Answer:
        other.rename_table("shop.orders", "shop.sales")
        return serve()

    unity.script(UPDATE, LOST_ANSWER, rename)
    unity.script("loadTable", lambda asked, serve: serve(), fail_once, fail_once)
    with pytest.raises(errors.DeltaError):
        table.append({"id": [2]})
    unity.clear()
    assert ids(other.table("shop.sales")) == [1, 2]


# -- who else is there -------------------------------------------------------------------------------------


def test_a_winner_is_passed_or_conflicts(unity: Unity, shop: dn.Catalog) -> None:
    one, other = shop.table("shop.orders"), catalog_of(unity).table("shop.orders")
    with one.transaction() as txn:
        txn.append({"id": [2]})
        other.append({"id": [3]})
    assert ids(one) == [1, 2, 3] and one.version == 2
    txn = one.transaction()
    txn.delete("id = 1")
    other.delete("id = 1")
    with pytest.raises(errors.DeltaConcurrentModificationException) as caught:
        txn.commit()
    assert "shop.orders" in str(caught.value.conflict.table)
    assert staged_files(one) <= {each.name for each in (Path(one.path) / STAGED_FOLDER).iterdir()}
    assert one.version == 3


def test_who_won_may_have_published_nothing(unity: Unity, shop: dn.Catalog, monkeypatch: Any) -> None:
    """As one that was killed behind its ratification."""
    one, other = shop.table("shop.orders"), catalog_of(unity).table("shop.orders")
    with publishing_nothing(monkeypatch):
        for number in (2, 3):
            other.append({"id": [number]})
    assert not (Path(one.path) / commit_name(2)).exists()
    one.append({"id": [4]})
    assert (Path(one.path) / commit_name(3)).exists() and (Path(one.path) / commit_name(2)).exists()
    assert ids(one) == [1, 2, 3, 4] and dn.DeltaLog.for_table(one.path).commits.newest() == 3


def test_too_many_unpublished_commits_are_published(unity: Unity, shop: dn.Catalog, monkeypatch: Any) -> None:
    table, other = shop.table("shop.orders"), catalog_of(unity).table("shop.orders")
    with publishing_nothing(monkeypatch):
        for number in range(2, 12):
            other.append({"id": [number]})
        with pytest.raises(errors.CommitFailed):
            other.append({"id": [12]})
    assert len(unity.table("main.shop.orders")["rows"]) == 10
    unity.clear()
    table.append({"id": [12]})
    assert unity.counts[UPDATE] == 3  # refused, reported, taken
    assert ids(table) == list(range(1, 13))
    assert unpublished(unity) == [11]
    assert len(staged_files(table)) == 11  # that of the refused one is gone


def test_a_table_that_was_replaced_is_named(unity: Unity, shop: dn.Catalog) -> None:
    table, other = shop.table("shop.orders"), catalog_of(unity)
    other.drop_table("shop.orders")
    with pytest.raises(errors.TableNotFound):
        table.append({"id": [2]})
    other.create_table("shop.orders", {"id": [7]})
    for work in (lambda: table.append({"id": [2]}), table.count):
        with pytest.raises(errors.TableReplaced, match="was replaced by another one"):
            work()
    assert ids(other.table("shop.orders")) == [7]


def test_a_catalog_that_was_set_back_is_named(unity: Unity, shop: dn.Catalog) -> None:
    table = shop.table("shop.orders")
    for number in (2, 3, 4):
        table.append({"id": [number]})
    txn = table.transaction()
    txn.append({"id": [5]})
    state = unity.table("main.shop.orders")
    state["rows"], state["marker"] = [
        {**state["rows"][-1], "version": 1, "file-name": f"{1:020}.restored.json"}], None
    with pytest.raises(errors.VersionNotFound, match="restored to an earlier state"):
        txn.commit()


def test_four_writers_each_of_whose_requests_may_fail(unity: Unity, shop: dn.Catalog) -> None:
    """A quarter of all requests is lost, or its answer is; every append is there once."""
    writers = [catalog_of(unity).table("shop.orders") for _ in range(4)]
    fates = itertools.cycle([None, LOST_REQUEST, None, None, None, LOST_ANSWER, None, None])
    plan = {UPDATE: fates}

    def lossy(asked: Asked) -> bool:
        fate = next(plan[UPDATE]) if asked.operation == UPDATE else None
        plan["fate"] = fate  # type: ignore[assignment]
        return fate is not None

    def play(asked: Asked, serve: Serve) -> Answer:
        from tests.catalog.unity.fake_faults import play as played

        return played(plan["fate"], asked, serve)  # type: ignore[arg-type]

    unity.script(lossy, play, forever=True)
    number = itertools.count(2)
    for _ in range(6):
        for writer in writers:
            writer.append({"id": [next(number)]})
    table = catalog_of(unity).table("shop.orders")
    assert ids(table) == list(range(1, 26)) and table.version == 24
    assert table.verify(files="all").is_sound


# -- counted -----------------------------------------------------------------------------------------------


def test_requests(unity: Unity, shop: dn.Catalog) -> None:
    shop.table("shop.orders").append({"id": [2]})
    unity.clear()

    def asked(work: Callable[[], Any]) -> dict[str, int]:
        unity.clear()
        work()
        return dict(unity.counts)

    opened: list[Any] = []
    assert asked(lambda: opened.append(catalog_of(unity).table("shop.orders"))) == {
        "getConfig": 1, "loadTable": 1}  # of a bucket, one for its keys
    table, other = opened[0], shop.table("shop.orders")
    assert asked(lambda: table.log.update()) == {"loadTable": 1}
    assert asked(table.count) == {"loadTable": 1}
    other.append({"id": [3]})
    other.append({"id": [4]})
    assert asked(lambda: table.log.update()) == {"loadTable": 1}
    for each in (table, other, other, table):
        txn = each.transaction()
        txn.append({"id": [5]})
        assert asked(txn.commit) == {UPDATE: 1}
        assert asked(lambda each=each: each.append({"id": [6]})) == {"loadTable": 1, UPDATE: 1}
    assert len(unpublished(unity)) == 1


def test_lists_come_by_pages(tmp_path: Path) -> None:
    unity = Unity(tmp_path / "unity", "0.7")
    catalog = catalog_of(unity)
    catalog.create_namespace("shop")
    for number in range(5):
        catalog.create_table(f"shop.t{number}", "id long")
    unity.clear()
    page = catalog.page("shop", None, 2)
    names = [str(row.name) for row in page.items]
    while page.next_token is not None:
        page = catalog.page("shop", page.next_token, 2)
        names += [str(row.name) for row in page.items]
    assert names == [f"shop.t{number}" for number in range(5)] and unity.counts["older.listTables"] == 3


# -- what is refused ---------------------------------------------------------------------------------------

MAINTAINED: dict[str, Callable[[dn.DeltaTable], Any]] = {
    "DATA_REORGANIZATION": lambda t: t.optimize(), "DATA_CLEANUP": lambda t: t.vacuum(),
    "METADATA_CLEANUP": lambda t: t.log.clean_up()}
ALLOWED: dict[str, tuple[Any, bool, bool]] = {
    # (what the server says, whether the caller allows it, whether it is done)
    "named": (MAINTENANCE, False, True), "none": ((), False, False), "none, asked for": ((), True, False),
    "not said": (None, False, False), "not said, asked for": (None, True, True)}


@pytest.mark.parametrize("operation", MAINTAINED)
@pytest.mark.parametrize("case", ALLOWED)
def test_maintenance_is_done_where_it_is_allowed(tmp_path: Path, operation: str, case: str) -> None:
    server, caller, is_done = ALLOWED[case]
    unity = Unity(tmp_path / "unity", "0.7" if server is not None else "0.6")
    unity.maintenance = server
    catalog = catalog_of(unity, allow_maintenance=caller)
    catalog.create_namespace("shop")
    table = catalog.create_table("shop.orders", {"id": [1]})
    table.append({"id": [2]})
    before = tree(Path(table.path))
    if is_done:
        MAINTAINED[operation](table)
        return
    with pytest.raises(errors.Forbidden, match=r"shop\.orders is not this client's to do"):
        MAINTAINED[operation](table)
    assert table.version == 1 and tree(Path(table.path)) == before
    table.vacuum(dry_run=True)


def test_a_table_with_uniform_is_read_and_not_written(tmp_path: Path) -> None:
    unity = Unity(tmp_path / "unity", "0.7")
    catalog = catalog_of(unity)
    catalog.create_namespace("shop")
    table = catalog.create_table("shop.orders", {"id": [1]})

    def converted(asked: Asked, serve: Serve) -> Answer:
        answer = serve()
        return Answer(200, {**answer.body, "uniform": {"iceberg": {"metadata-location": "x"}}})

    unity.script("loadTable", converted, forever=True)
    before = tree(Path(table.path))
    assert ids(table) == [1]
    with pytest.raises(errors.UnsupportedProtocol, match="converted to Iceberg"):
        table.append({"id": [2]})
    assert tree(Path(table.path)) == before


def test_a_table_that_is_committed_alone_has_no_feature_of_groups(unity: Unity, shop: dn.Catalog) -> None:
    table = shop.table("shop.orders")
    before = tree(Path(table.path))
    with pytest.raises(errors.UnsupportedProtocol, match="commits one at a time"):
        table.add_feature("multiTableTransaction-dev")
    assert table.version == 0 and tree(Path(table.path)) == before


def test_local_files_are_opened_where_they_are_allowed(tmp_path: Path) -> None:
    unity = Unity(tmp_path / "unity", "0.7")
    catalog = catalog_of(unity)
    catalog.create_namespace("shop")
    catalog.create_table("shop.orders", {"id": [1]})
    strict = catalog_of(unity, allow_local_files=False)
    for work in (lambda: strict.table("shop.orders"), lambda: strict.create_table("shop.t", {"id": [1]})):
        with pytest.raises(errors.InvalidArgument, match="allow_local_files=True"):
            work()
    assert strict.list_tables("shop") == ["shop.orders"]


@pytest.mark.parametrize("name", ["transaction", "commit_iceberg", "serve", "snapshot", "as_of", "history"])
def test_what_a_unity_catalog_has_no_notion_of_is_refused_by_name(tmp_path: Path, name: str) -> None:
    catalog = catalog_of(Unity(tmp_path / "unity", "0.7"))
    with pytest.raises(errors.InvalidArgument, match=rf"a Unity Catalog has no {name}\(\): "):
        getattr(catalog, name)()


def test_a_server_without_the_api_is_refused(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidArgument, match=r"since 0\.5\.0"):
        catalog_of(Unity(tmp_path / "unity", "0.4"))


def test_a_redirect_is_not_followed(tmp_path: Path) -> None:
    unity = Unity(tmp_path / "unity", "0.7")
    unity.script("getConfig", Answer(303, None, {"Location": "http://elsewhere/login"}), forever=True)
    with pytest.raises(errors.InvalidArgument, match="sends its clients to another address"):
        catalog_of(unity)
    assert unity.counts == {"getConfig": 1}


def test_refusals_are_told_apart_by_their_type(tmp_path: Path) -> None:
    unity = Unity(tmp_path / "unity", "0.7")
    catalog = catalog_of(unity)
    catalog.create_namespace("shop")
    catalog.create_table("shop.orders", {"id": [1]})
    for kind, error in (("NotAuthorizedException", errors.Unauthorized),
                        ("PermissionDeniedException", errors.Forbidden),
                        ("UnsupportedTableFormatException", errors.UnsupportedProtocol),
                        ("NoSuchTableException", errors.TableNotFound),
                        ("BadRequestException", errors.InvalidArgument)):
        unity.script("loadTable", refusal(400, kind), forever=True)  # whatever the status
        with pytest.raises(error):
            catalog.table("shop.orders")
        unity.clear()
