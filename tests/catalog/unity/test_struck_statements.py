"""What makes, renames and drops in a Unity Catalog, while one of its requests meets a fault."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("httpx")
pytest.importorskip("sqlalchemy", reason="the catalog is an extra: pip install 'deltanb[catalog]'")

import deltanb as dn
from deltanb import errors
from deltanb.catalog.unity.client.auth import auth_of
from tests.catalog.unity.clients import catalog_of
from tests.catalog.unity.fake import Unity
from tests.catalog.unity.fake_faults import (
    LOST_ANSWER,
    LOST_REQUEST,
    Answer,
    Asked,
    Does,
    Serve,
    Strike,
    after,
    interrupt,
    no_server,
    refusal,
    too_many_requests,
    unavailable,
)
from tests.catalog.unity.test_auth import CLIENT, URL, TokenUrl, token_url
from tests.helpers import ids, tree

__all__ = ["token_url"]

FAULTS: dict[str, Does] = {
    "lost request": LOST_REQUEST, "lost answer": LOST_ANSWER, "502": Answer(502, "bad gateway"),
    "502, done": after(Answer(502, "bad gateway")), "503": unavailable(), "503, done": after(unavailable()),
    "429": too_many_requests(), "403": refusal(403, "PermissionDeniedException"),
    "401": refusal(401, "NotAuthorizedException"), "no server": no_server,
    "409 of a lock": refusal(409, "UpdateRequirementConflictException"),
    "409 of a name": refusal(409, "AlreadyExistsException"),
}
INTERRUPTS: dict[str, Does] = {"before": interrupt, "behind": after(interrupt)}
STATEMENTS: dict[str, tuple[Callable[[Any, Path], Any], Callable[[Any], bool]]] = {
    # What is done, and whether it is done.
    "create": (lambda c, _: c.create_table("shop.new", {"id": [7]}),
               lambda c: "shop.new" in c.list_tables("shop")),
    "create external": (lambda c, path: c.create_table("shop.new", {"id": [7]}, location=path / "new"),
                        lambda c: "shop.new" in c.list_tables("shop")),
    "rename": (lambda c, _: c.rename_table("shop.orders", "shop.sales"),
               lambda c: c.list_tables("shop") == ["shop.sales"]),
    "drop": (lambda c, _: c.drop_table("shop.orders"), lambda c: c.list_tables("shop") == []),
    "create schema": (lambda c, _: c.create_namespace("attic"), lambda c: "attic" in c.list_namespaces()),
    "drop schema": (lambda c, _: c.drop_namespace("empty"), lambda c: "empty" not in c.list_namespaces()),
}


class Shop(NamedTuple):
    """A server with a table, its catalog as a client has it, and a folder for what lies outside of it."""

    unity: Unity
    catalog: Any
    path: Path

    @classmethod
    @contextmanager
    def at(cls, path: Path) -> Iterator[Shop]:
        unity = Unity(path / "unity", "0.7")
        with dn.set_options(durability="none"), catalog_of(unity) as catalog:
            catalog.create_namespace("shop")
            catalog.create_namespace("empty")
            catalog.create_table("shop.orders", {"id": [1]})
            unity.clear()
            yield cls(unity, catalog, path)


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with Shop.at(tmp_path) as shop:
        yield shop


def each_struck(path: Path, does: Callable[[Shop], Does]) -> Iterator[tuple[Shop, Strike]]:
    """For each request of a statement a fresh shop, in which a fault befalls that one; and a last shop in
    which the statement has no further one."""
    for at in itertools.count():
        with Shop.at(path / str(at)) as shop:
            strike = Strike(does(shop), at)
            shop.unity.script(lambda _: True, strike, forever=True)
            yield shop, strike
            if not strike.is_played:
                assert at > 0, "it has no request at all"
                return


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", STATEMENTS)
def test_a_statement_is_done_or_not(tmp_path: Path, name: str, fault: str) -> None:
    work, is_done = STATEMENTS[name]
    for (unity, catalog, path), strike in each_struck(tmp_path, lambda _: FAULTS[fault]):
        before = tree(path)
        error: errors.DeltaError | None = None
        try:
            work(catalog, path)
        except errors.DeltaError as refused:
            error = refused
        unity.clear()
        if error is None:
            assert is_done(catalog)
        elif not isinstance(error, errors.CommitOutcomeUnknown):
            assert strike.is_played
            assert not is_done(catalog), "what is done is not refused"
            assert tree(path) == before, "what is refused leaves nothing"
            work(catalog, path)  # the way out of all of these: once more
            assert is_done(catalog)
        if name.startswith("create") and "shop.new" in catalog.list_tables("shop"):
            assert ids(catalog.table("shop.new")) == [7]


@pytest.mark.parametrize("when", INTERRUPTS)
@pytest.mark.parametrize("name", STATEMENTS)
def test_a_statement_that_is_interrupted_can_be_done_after_all(tmp_path: Path, name: str, when: str) -> None:
    work, is_done = STATEMENTS[name]
    for (unity, catalog, path), strike in each_struck(tmp_path, lambda _: INTERRUPTS[when]):
        note, is_interrupted = "", False
        try:
            work(catalog, path)
        except KeyboardInterrupt as interrupted:
            note, is_interrupted = " ".join(getattr(interrupted, "__notes__", ())), True
        assert is_interrupted is strike.is_played
        unity.clear()
        if not is_done(catalog):
            if name == "create external" and (path / "new").exists():
                assert "its files were kept" in note
                catalog.register_table("shop.new", path / "new")
            else:
                work(catalog, path)
        assert is_done(catalog)
        if name.startswith("create") and "shop.new" in catalog.list_tables("shop"):
            assert ids(catalog.table("shop.new")) == [7]


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_token_that_ends_early_is_renewed_in_the_middle(
    tmp_path: Path, name: str, token_url: TokenUrl
) -> None:
    work, is_done = STATEMENTS[name]

    def end(shop: Shop) -> Does:
        def ended(asked: Asked, serve: Serve) -> Answer:
            shop.unity.token = next_token()
            return serve()

        return ended

    def next_token() -> str:
        return f"hush-{len(token_url.requests) + 1}"

    for (unity, catalog, path), strike in each_struck(tmp_path, end):
        catalog.store.connection.auth = auth_of(URL, **CLIENT)
        unity.token, asked_before = next_token(), len(token_url.requests)
        work(catalog, path)
        assert is_done(catalog)
        assert len(token_url.requests) - asked_before == 1 + strike.is_played


def test_a_staging_table_that_is_never_answered_is_no_table(shop: Shop) -> None:
    unity, catalog, _ = shop
    unity.script("createStagingTable", LOST_ANSWER, forever=True)
    with pytest.raises(errors.StorageError, match=r"the table shop\.new was not made"):
        catalog.create_table("shop.new", {"id": [7]})
    assert catalog.list_tables("shop") == ["shop.orders"]


@pytest.mark.parametrize("lost", [LOST_REQUEST, LOST_ANSWER])
def test_a_table_is_made_by_the_second_request_where_the_first_one_is_lost(
    shop: Shop, lost: str
) -> None:
    unity, catalog, _ = shop
    unity.script("createTable", lost)
    assert ids(catalog.create_table("shop.new", {"id": [7]})) == [7]
    assert unity.counts["createTable"] == (2 if lost == LOST_REQUEST else 1)


def test_a_table_of_which_nobody_knows_keeps_its_files(shop: Shop) -> None:
    unity, catalog, path = shop
    before = tree(path)
    unity.script("createTable", LOST_REQUEST, forever=True)
    with pytest.raises(errors.CommitOutcomeUnknown):
        catalog.create_table("shop.new", {"id": [7]})
    assert len(tree(path)) > len(before)
