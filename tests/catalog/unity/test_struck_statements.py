"""What makes, renames and drops in a Unity Catalog, while one of its requests meets a fault."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

pytest.importorskip("httpx")
pytest.importorskip("sqlalchemy", reason="the catalog is an extra: pip install 'deltanb[catalog]'")

import deltanb as dn
from deltanb import errors
from tests.catalog.unity.clients import catalog_of
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
from tests.helpers import ids, tree

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
MAX_REQUESTS = 7  # of one statement; a test counts them


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[tuple[Unity, Any]]:
    unity = Unity(tmp_path / "unity", "0.7")
    with dn.set_options(durability="none"), catalog_of(unity) as catalog:
        catalog.create_namespace("shop")
        catalog.create_namespace("empty")
        catalog.create_table("shop.orders", {"id": [1]})
        unity.clear()
        yield unity, catalog


def test_no_statement_has_more_requests(shop: tuple[Unity, Any], tmp_path: Path) -> None:
    unity, catalog = shop
    for name in ("create", "rename", "create schema", "drop schema"):
        unity.clear()
        STATEMENTS[name][0](catalog, tmp_path)
        assert 0 < len(unity.requests) <= MAX_REQUESTS, name


def strike(unity: Unity, does: Does, at: int) -> None:
    """Have it befall one of the requests that follow, by its number."""
    asked: list[str] = []

    def struck(request: Asked, serve: Serve) -> Answer:
        asked.append(request.operation)
        return play(does, request, serve) if len(asked) - 1 == at else serve()

    unity.script(lambda _: True, struck, forever=True)


@pytest.mark.parametrize("at", range(MAX_REQUESTS))
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", STATEMENTS)
def test_a_statement_is_done_or_not(
    shop: tuple[Unity, Any], tmp_path: Path, name: str, fault: str, at: int
) -> None:
    (unity, catalog), (work, is_done) = shop, STATEMENTS[name]
    strike(unity, FAULTS[fault], at)
    before = tree(tmp_path)
    error: errors.DeltaError | None = None
    try:
        work(catalog, tmp_path)
    except errors.DeltaError as refused:
        error = refused
    unity.clear()
    if error is None:
        assert is_done(catalog)
    elif not isinstance(error, errors.CommitOutcomeUnknown):
        assert not is_done(catalog), "what is done is not refused"
        assert tree(tmp_path) == before, "what is refused leaves nothing"
        work(catalog, tmp_path)  # the way out of all of these: once more
        assert is_done(catalog)
    if name.startswith("create") and "shop.new" in catalog.list_tables("shop"):
        assert ids(catalog.table("shop.new")) == [7]


@pytest.mark.parametrize("at", range(MAX_REQUESTS))
@pytest.mark.parametrize("when", INTERRUPTS)
@pytest.mark.parametrize("name", STATEMENTS)
def test_a_statement_that_is_interrupted_can_be_done_after_all(
    shop: tuple[Unity, Any], tmp_path: Path, name: str, when: str, at: int
) -> None:
    (unity, catalog), (work, is_done) = shop, STATEMENTS[name]
    strike(unity, INTERRUPTS[when], at)
    try:
        work(catalog, tmp_path)
    except KeyboardInterrupt as interrupted:
        note = " ".join(getattr(interrupted, "__notes__", ()))
    else:
        note = "it has no such request"
    unity.clear()
    if not is_done(catalog):
        if name == "create external" and (tmp_path / "new").exists():
            assert "its files were kept" in note
            catalog.register_table("shop.new", tmp_path / "new")
        else:
            work(catalog, tmp_path)
    assert is_done(catalog)
    if name.startswith("create") and "shop.new" in catalog.list_tables("shop"):
        assert ids(catalog.table("shop.new")) == [7]


class Renewing:
    """Who has another token by the time that the first one is refused, and then no other."""

    tokens: ClassVar[list[str]] = ["first", "second"]

    def header(self) -> str:
        return f"Bearer {self.tokens[0]}"

    def renewed(self, refused: str | None = None) -> bool:
        self.tokens = self.tokens[1:] or self.tokens
        return self.tokens == ["second"]


@pytest.mark.parametrize("at", range(MAX_REQUESTS))
@pytest.mark.parametrize("name", STATEMENTS)
def test_a_token_that_ends_early_is_renewed_in_the_middle(
    shop: tuple[Unity, Any], tmp_path: Path, name: str, at: int
) -> None:
    (unity, catalog), (work, is_done) = shop, STATEMENTS[name]
    catalog.store.connection.auth = Renewing()
    strike(unity, refusal(401, "NotAuthorizedException"), at)
    work(catalog, tmp_path)
    assert is_done(catalog)
    tokens = [asked.headers.get("authorization") for asked in unity.requests]
    assert tokens == sorted(tokens) and set(tokens) <= {"Bearer first", "Bearer second"}


def test_a_staging_table_that_is_never_answered_is_no_table(shop: tuple[Unity, Any], tmp_path: Path) -> None:
    unity, catalog = shop
    unity.script("createStagingTable", LOST_ANSWER, forever=True)
    with pytest.raises(errors.StorageError, match=r"the table shop\.new was not made"):
        catalog.create_table("shop.new", {"id": [7]})
    assert catalog.list_tables("shop") == ["shop.orders"]


@pytest.mark.parametrize("lost", [LOST_REQUEST, LOST_ANSWER])
def test_a_table_is_made_by_the_second_request_where_the_first_one_is_lost(
    shop: tuple[Unity, Any], lost: str
) -> None:
    unity, catalog = shop
    unity.script("createTable", lost)
    assert ids(catalog.create_table("shop.new", {"id": [7]})) == [7]
    assert unity.counts["createTable"] == (2 if lost == LOST_REQUEST else 1)


def test_a_table_of_which_nobody_knows_keeps_its_files(shop: tuple[Unity, Any], tmp_path: Path) -> None:
    unity, catalog = shop
    before = tree(tmp_path)
    unity.script("createTable", LOST_REQUEST, forever=True)
    with pytest.raises(errors.CommitOutcomeUnknown):
        catalog.create_table("shop.new", {"id": [7]})
    assert len(tree(tmp_path)) > len(before)
