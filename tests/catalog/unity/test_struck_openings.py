"""Tables of a Unity Catalog that are opened while one of the requests meets a fault."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("httpx")
pytest.importorskip("sqlalchemy", reason="the catalog is an extra: pip install 'deltanb[catalog]'")

import httpx

import deltanb as dn
from deltanb import errors
from deltanb.catalog.unity.client import connection
from tests.catalog.unity.clients import catalog_of
from tests.catalog.unity.fake import Unity
from tests.catalog.unity.fake_faults import Answer, Asked, Serve, Strike
from tests.catalog.unity.test_auth import CLIENT, TokenUrl, token_url
from tests.catalog.unity.test_struck_statements import FAULTS, INTERRUPTS
from tests.helpers import ids, tree

__all__ = ["token_url"]
ADDRESS = "uc://localhost:1/main"
WAYS: dict[str, Callable[..., Any]] = {
    "open": lambda **who: dn.open(f"{ADDRESS}.shop.orders", allow_local_files=True, **who),
    "table": lambda **who: dn.connect(ADDRESS, allow_local_files=True, **who).table("shop.orders"),
}


@pytest.fixture
def unity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Unity:
    """At the address, with a table of two versions; nobody waits until it is less busy."""
    unity = Unity(tmp_path / "unity", "0.7")
    with dn.set_options(durability="none"), catalog_of(unity) as catalog:
        catalog.create_namespace("shop")
        catalog.create_table("shop.orders", {"id": [1]}).append({"id": [2]})
    monkeypatch.setattr(connection, "FIRST_WAIT", 0)
    monkeypatch.setattr(connection.UnityConnection, "client",
                        lambda _: httpx.Client(transport=unity.transport))
    unity.clear()
    return unity


@pytest.mark.parametrize("fault", [*FAULTS, *INTERRUPTS])
@pytest.mark.parametrize("way", WAYS)
def test_a_table_is_open_and_right_or_the_catalog_is_named(
    unity: Unity, tmp_path: Path, way: str, fault: str
) -> None:
    before = tree(tmp_path)
    for at in itertools.count():
        strike = Strike({**FAULTS, **INTERRUPTS}[fault], at)
        unity.script(lambda _: True, strike, forever=True)
        try:
            assert ids(WAYS[way]()) == [1, 2]
        except KeyboardInterrupt:
            assert strike.is_played and fault in INTERRUPTS
        except errors.DeltaError as error:
            assert strike.is_played
            named = f"{error} {getattr(error, 'path', '')}"
            assert "localhost:1" in named or "as the script says" in named, "the catalog, or its own words"
        unity.clear()
        assert ids(WAYS[way]()) == [1, 2] and tree(tmp_path) == before
        unity.clear()
        if not strike.is_played:
            assert at > 0, "it has no request at all"
            return


@pytest.mark.parametrize("way", WAYS)
def test_a_token_that_ends_early_is_renewed_on_the_way(unity: Unity, way: str, token_url: TokenUrl) -> None:
    def end(asked: Asked, serve: Serve) -> Answer:
        unity.token = f"hush-{len(token_url.requests) + 1}"
        return serve()

    for at in itertools.count():
        strike, asked = Strike(end, at), len(token_url.requests)
        unity.token = f"hush-{asked + 1}"
        unity.script(lambda _: True, strike, forever=True)
        assert ids(WAYS[way](**CLIENT)) == [1, 2]
        assert len(token_url.requests) - asked == 1 + strike.is_played
        unity.clear()
        if not strike.is_played:
            assert at > 0, "it has no request at all"
            return
