"""Tables opened by their names in a catalog, and by the address of a Unity Catalog."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("httpx")
pytest.importorskip("sqlalchemy", reason="the catalog is an extra: pip install 'deltanb[catalog]'")

import deltanb as dn
from deltanb import errors
from tests.catalog.unity.clients import catalog_of
from tests.catalog.unity.fake import Unity
from tests.helpers import ids


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Of a server that wants a token, whose catalog ``main`` has ``shop.orders``."""
    unity = Unity(tmp_path / "unity", "0.7")
    with catalog_of(unity) as catalog:
        catalog.create_namespace("shop")
        catalog.create_table("shop.orders", {"id": [1]}).append({"id": [2]})
    unity.token = "hush"
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DELTANB_CATALOG", raising=False)
    with unity.serving() as url:
        yield url.replace("http://", "uc://")


LOCAL: dict[str, Any] = {"token": "hush", "allow_local_files": True}


def test_a_table_by_its_address(address: str) -> None:
    assert ids(dn.open(f"{address}/main.shop.orders", **LOCAL)) == [1, 2]
    assert ids(dn.open(f"{address}/main.shop.orders", 0, **LOCAL)) == [1]
    with dn.connect(f"{address}/main", **LOCAL) as catalog:
        assert ids(catalog.table("shop.orders")) == [1, 2]


@pytest.mark.parametrize("place", ["/main", "/other"])
def test_a_table_by_its_name_where_a_catalog_is_set(
    address: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = f"{address}{place}"  # the server's; which catalog, the name says
    with dn.set_options(catalog=place):
        assert ids(dn.open("main.shop.orders", **LOCAL)) == [1, 2]
    monkeypatch.setenv("DELTANB_CATALOG", place)
    assert ids(dn.open("main.shop.orders", **LOCAL)) == [1, 2]
    with pytest.raises(errors.TableNotFound, match=r"shop\.lost"):
        dn.open("main.shop.lost", **LOCAL)
    with pytest.raises(errors.Unauthorized):
        dn.open("main.shop.orders", allow_local_files=True)


def test_a_catalog_of_this_library_by_name(tmp_path: Path) -> None:
    catalog = dn.Catalog(f"sqlite:///{tmp_path}/c.db", tmp_path / "lake")
    catalog.create_namespace("shop.eu")
    catalog.create_table("shop.eu.orders", {"id": [7]})
    with dn.set_options(catalog=catalog):
        assert ids(dn.open("default.shop.eu.orders")) == [7]
        with pytest.raises(errors.InvalidArgument, match="is in the catalog 'main'"):
            dn.open("main.shop.orders")
        with pytest.raises(errors.InvalidArgument, match="connected already"):
            dn.open("default.shop.eu.orders", token="t")


def test_a_folder_of_that_name_is_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    dn.create("main.shop.orders", {"id": [3]})
    with dn.set_options(catalog="uc://nowhere.invalid/main"):
        assert ids(dn.open("main.shop.orders")) == [3]


@pytest.mark.parametrize("path", ["orders", "lake/main.shop.orders", "s3://lake/main.shop.orders", "a.b"])
def test_arguments_of_a_connection_are_refused_with_a_path(path: str) -> None:
    with pytest.raises(errors.InvalidArgument, match="token goes with the name of a table in a catalog"):
        dn.open(path, token="hush")


@pytest.mark.parametrize("rest", ["main", "main.shop"])
def test_an_address_of_no_table_is_refused(address: str, rest: str) -> None:
    with pytest.raises(errors.InvalidArgument, match="names no table"):
        dn.open(f"{address}/{rest}", **LOCAL)


def test_an_address_of_a_table_is_no_catalog(address: str) -> None:
    with pytest.raises(errors.InvalidArgument, match=r"deltanb\.open opens it"):
        dn.connect(f"{address}/main.shop.orders", **LOCAL)


def test_a_token_that_is_refused_is_not_shown(address: str) -> None:
    with pytest.raises(errors.Unauthorized) as caught:
        dn.connect(f"{address}/main", token="not-that-one")
    assert "not-that-one" not in str(caught.value)


def test_open_takes_what_connect_takes() -> None:
    of_connect = inspect.signature(dn.connect).parameters.keys() - {"url", "timeout"}
    assert of_connect <= inspect.signature(dn.open).parameters.keys()


@pytest.mark.parametrize("name", ["client_id", "profile", "allow_local_files", "allow_maintenance"])
def test_what_is_for_unity_alone_is_refused_elsewhere(name: str) -> None:
    with pytest.raises(errors.InvalidArgument, match=f"{name} is for a Unity Catalog"):
        dn.connect("http://localhost:1", **{name: True})  # type: ignore[arg-type]


def test_a_name_in_a_catalog_makes_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    address = "uc://localhost:8080/main"
    with dn.set_options(catalog=address):
        for name in ("main.shop.orders", f"{address}.shop.orders"):
            with pytest.raises(errors.InvalidArgument, match=r"catalog\.create_table\(name, data\)"):
                dn.create(name, {"id": [1]})
        dn.create("./main.shop.orders", {"id": [1]})
    dn.create("main.shop.others", {"id": [1]})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["main.shop.orders", "main.shop.others"]
