"""Calls that a newcomer gets wrong: each is answered by an error of this library that says what to do."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="the server is an extra: pip install 'deltanb[catalog]'")

import deltanb as dn
from deltanb import errors
from deltanb.catalog.rest.server import serve


@pytest.fixture(params=["in the process", "over HTTP"])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dn.Catalog]:
    """A catalog with the namespace ``shop``."""
    url, lake = f"sqlite:///{tmp_path}/catalog.db", tmp_path / "lake"
    with ExitStack() as stack:
        here = request.param == "in the process"
        catalog = stack.enter_context(
            dn.Catalog(url, lake) if here else dn.connect(stack.enter_context(serve(url, lake)).url))
        catalog.create_namespace("shop")
        yield catalog


@pytest.mark.parametrize(("call", "pattern"), [
    (lambda c: c.table("shop.ordesr"), r"no table shop\.ordesr in the catalog; did you mean shop\.orders\?"),
    (lambda c: c.table("shop.zzz"), r"no table shop\.zzz in the catalog; the tables in shop are shop\.or"),
    (lambda c: c.transaction().table("shop.Orders"), r"did you mean shop\.orders\?"),
    (lambda c: c.snapshot(["shop.ordesr"]), r"did you mean shop\.orders\?"),
    (lambda c: c.drop_table("shop.ordesr"), r"did you mean shop\.orders\?"),
    (lambda c: c.table("shpo.orders"), r"shpo\.orders"),
])
def test_a_misspelt_name_is_answered_with_the_ones_like_it(catalog: dn.Catalog, call, pattern: str) -> None:
    catalog.create_table("shop.orders", {"id": [1]})
    with pytest.raises(errors.TableNotFound, match=pattern):
        call(catalog)


@pytest.mark.parametrize(("call", "message"), [
    (lambda c, t: c.table(t), "a DeltaTable is not a table's name; give 'namespace.table'"),
    (lambda c, t: c.as_of(10**30), f"a time is epoch milliseconds in 64 bits, found {10**30}"),
])
def test_arguments_of_a_wrong_kind_are_refused_in_words(catalog: dn.Catalog, call, message: str) -> None:
    table = catalog.create_table("shop.orders", {"id": [1]})
    with pytest.raises(errors.InvalidArgument) as caught:
        call(catalog, table)
    assert str(caught.value) == message
    assert catalog.list_namespaces() == ["shop"] and catalog.list_tables("shop") == ["shop.orders"]


@pytest.mark.parametrize(("url", "pattern"), [
    ("postgresql://ada@localhost:abc/db", "not a URL"),
    ("mysql://ada@localhost/db", "a catalog cannot be kept in mysql; give sqlite:///FILE"),
    ("http://localhost:8181", r"deltanb\.connect\(url\)"),
    ("sqlite://catalog.db", "three slashes: sqlite:///FILE"),
])
def test_addresses_that_are_no_database(url: str, pattern: str, tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidArgument, match=pattern):
        dn.Catalog(url, warehouse=tmp_path)


@pytest.mark.parametrize("url", [None, "", "localhost:8181", "ftp://host", "http://localhost:abc"])
def test_addresses_that_are_no_server(url: str) -> None:
    with pytest.raises(errors.InvalidArgument, match=r"is not the URL of a server; give one such as 'http://loc"):
        dn.connect(url)


def test_a_token_that_is_no_text(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidArgument, match="a token has printable"):
        dn.connect("http://localhost:8181", token=5)  # type: ignore[arg-type]


def test_a_server_is_not_given_a_catalog(catalog: dn.Catalog, tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidArgument, match=r"a Catalog is not a catalog's database; give its"):
        serve(catalog, tmp_path)  # type: ignore[arg-type]


@pytest.mark.parametrize("take", [pickle.dumps, copy.deepcopy])
@pytest.mark.parametrize("what", [lambda c: c, lambda c: c.table("shop.orders"), lambda c: c.transaction()])
def test_what_holds_connections_is_not_taken_elsewhere(catalog: dn.Catalog, take, what) -> None:
    catalog.create_table("shop.orders", {"id": [1]})
    with pytest.raises(errors.IllegalStateError, match="cannot be pickled or copied"):
        take(what(catalog))


def test_a_table_as_it_was_says_how_to_write_to_the_present_one(catalog: dn.Catalog) -> None:
    catalog.create_table("shop.orders", {"id": [1]})
    with pytest.raises(errors.IllegalStateError, match=r"the table itself: catalog\.table\('shop\.orders'\)"):
        catalog.snapshot(["shop.orders"])["shop.orders"].append({"id": [2]})


def test_a_table_is_not_registered_twice(new_url: Callable[[], str], tmp_path: Path) -> None:
    catalog = dn.Catalog(new_url(), tmp_path / "lake")
    catalog.create_namespace("shop")
    path = catalog.create_table("shop.orders", {"id": [1]}).path
    with pytest.raises(errors.TableAlreadyExists, match=r"in the catalog already, as shop\.orders; re"):
        catalog.register_table("shop.sales", path)
    with pytest.raises(errors.TableAlreadyExists, match=r"the name shop\.orders is taken"):
        catalog.register_table("shop.orders", path)


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda t: t.delete("id = = 1"), errors.InvalidArgument,
     "PyIceberg cannot parse the condition 'id = = 1' for shop.events; write it like"),
    (lambda t: t.to_arrow(where="id = = 1"), errors.InvalidArgument, "PyIceberg cannot parse the condition"),
    (lambda t: t.to_arrow(where="nil = 1"), errors.InvalidArgument, "PyIceberg refuses it for shop.events: "),
    (lambda t: t.to_arrow(columns=["nil"]), errors.InvalidArgument, "PyIceberg refuses it for shop.events: "),
    (lambda t: t.append({"id": ["x"]}), errors.SchemaMismatch,
     "the data does not fit the table shop.events: the column id is string in the data, int64 in the table"),
])
def test_what_an_iceberg_table_cannot_do_is_said_in_a_line(
    catalog: dn.Catalog, capsys: pytest.CaptureFixture[str], call, error: type[Exception], message: str
) -> None:
    pytest.importorskip("pyiceberg", reason="PyIceberg is an extra: pip install 'deltanb[iceberg]'")
    table = catalog.create_table("shop.events", {"id": [1]}, format="iceberg")
    with pytest.raises(error) as caught:
        call(table)
    assert str(caught.value).startswith(message) and "\n" not in str(caught.value)
    assert capsys.readouterr().out == ""
    assert "1 file " in str(table)
