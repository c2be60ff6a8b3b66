"""Routes, permissions, OpenAPI and the client have each row of the table of endpoints, and nothing else."""

from __future__ import annotations

import inspect

import pytest

pytest.importorskip("starlette", reason="the server is an extra: pip install 'deltanb[catalog]'")

from starlette.routing import Route

from deltanb.catalog.rest.client.store import RemoteRegistry, RemoteStore
from deltanb.catalog.rest.endpoint import Api, Endpoint
from deltanb.catalog.rest.endpoints import ENDPOINTS, ICEBERG, OWN
from deltanb.catalog.rest.server.app import application
from deltanb.catalog.rest.server.messages import anyone
from deltanb.catalog.rest.server.openapi import description
from deltanb.catalog.rest.server.refusals import refused
from deltanb.catalog.rest.server.service import Service
from deltanb.catalog.store.registry import Registry
from deltanb.catalog.store.store import CatalogStore
from tests.catalog.server.ask import Client

OPEN = {"config", "get_config", "instant", "history", "names", "overview", "is_registered", "outcome",
        "staging_credentials", "list_catalogs", "get_catalog", "list_schemas"}
"""What everybody may ask: it shows what the sender may see, or is about the sender's own requests."""

ROWS = {(each.method, path): each for each in ENDPOINTS for path in each.paths}


def test_no_path_is_there_twice() -> None:
    assert len(ROWS) == sum(len(each.paths) for each in ENDPOINTS)


def test_each_has_a_route_and_no_other_path_has(service: Service) -> None:
    routes = [route for route in application(service).routes if isinstance(route, Route)]
    served = {(method, route.path) for route in routes for method in route.methods or ()}
    without_heads = {(method, path) for method, path in served
                     if method != "HEAD" or (method, path) in ROWS}  # GET answers HEAD, too
    assert without_heads == ROWS.keys() | {("GET", "/healthz"), ("GET", "/openapi.json")}


def test_each_is_described(client: Client) -> None:
    served = client.get("/openapi.json").json()
    assert served == description(ENDPOINTS)
    operations = {(method.upper(), path): operation for path, methods in served["paths"].items()
                  for method, operation in methods.items()}
    assert operations.keys() == ROWS.keys()
    ids = [operation["operationId"] for operation in operations.values()]
    assert len(set(ids)) == len(ids)
    assert description(ICEBERG)["paths"].items() <= served["paths"].items()


@pytest.mark.parametrize("api", {id(row.api): row.api for row in ENDPOINTS}.values(),
                         ids=lambda api: next(iter(api.roots)))
def test_each_status_of_an_apis_refusals_has_its_form(api: Api) -> None:
    for status in api.statuses:
        reply = api.in_form(refused(status, "Kind", "why"))
        assert reply.status == status
        api.error(reply.value, "")


def test_clients_are_told_of_each_of_icebergs(client: Client) -> None:
    rows = [f"{each.method} /v1/{{prefix}}{each.path}" for each in ICEBERG if each.path != "/config"]
    assert client.get("/v1/config").json()["endpoints"] == rows


def test_only_what_shows_nothing_needs_no_permission() -> None:
    assert {each.name for each in ENDPOINTS if each.needs is anyone} == OPEN


@pytest.mark.parametrize("row", ENDPOINTS, ids=lambda row: f"{row.method} {row.path}")
def test_what_changes_takes_a_body_or_names_its_object(row: Endpoint) -> None:
    assert row.method in ("GET", "HEAD", "DELETE") or row.body is not None
    assert not row.is_keyed or row.method in ("POST", "DELETE")


def test_each_of_our_own_is_a_method_of_the_client_and_no_other_asks() -> None:
    clients: dict[type, type] = {CatalogStore: RemoteStore, Registry: RemoteRegistry}
    carried = set()
    for row in OWN:
        if row.carries is not None:  # the configuration is what a client begins with
            store = next(each for each in clients if vars(each).get(row.carries.__name__) is row.carries)
            method = getattr(clients[store], row.carries.__name__)
            names = list(inspect.signature(row.carries).parameters)
            assert list(inspect.signature(method).parameters)[:2] == names[:2]
            carried.add(row.carries.__name__)
    methods = {name for client in clients.values() for name, value in vars(client).items()
               if callable(value) and not name.startswith("_")}
    assert methods == carried | {"close", "load", "load_many"}
