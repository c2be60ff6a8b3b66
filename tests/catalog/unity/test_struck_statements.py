"""What makes, renames and drops in a Unity Catalog, while one of its requests meets a fault."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

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
    "401": refusal(401, "NotAuthorizedException"),
}
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


@pytest.mark.parametrize("at", range(MAX_REQUESTS))
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", STATEMENTS)
def test_a_statement_is_done_or_not(
    shop: tuple[Unity, Any], tmp_path: Path, name: str, fault: str, at: int
) -> None:
    (unity, catalog), (work, is_done) = shop, STATEMENTS[name]
    asked: list[str] = []

    def struck(request: Asked, serve: Serve) -> Answer:
        asked.append(request.operation)
        return play(FAULTS[fault], request, serve) if len(asked) - 1 == at else serve()

    unity.script(lambda _: True, struck, forever=True)
    before = tree(tmp_path)
    error: errors.DeltaError | None = None
    try:
        work(catalog, tmp_path)
    except errors.DeltaError as refused:
        error = refused
    unity.clear()
    if error is None:
        assert is_done(catalog)
    elif not isinstance(error, errors.CommitOutcomeUnknown) and not is_done(catalog):
        assert tree(tmp_path) == before, "what is refused leaves nothing"
        work(catalog, tmp_path)  # the way out of all of these: once more
        assert is_done(catalog)
    if name.startswith("create") and "shop.new" in catalog.list_tables("shop"):
        assert ids(catalog.table("shop.new")) == [7]
