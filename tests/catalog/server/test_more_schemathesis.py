"""Requests that Schemathesis makes of what the server says of its endpoints beside Iceberg's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import hypothesis
import pytest

pytest.importorskip("schemathesis", reason="Schemathesis is not installed")

import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

import deltanb as dn
from deltanb.catalog.rest.endpoints import ENDPOINTS
from deltanb.catalog.rest.server import Server, serve
from deltanb.catalog.rest.server.openapi import description
from deltanb.errors import DeltaError
from deltanb.options import set_options
from tests.examples import some_requests

ROOTS = ("/deltanb/v1", "/delta/v1", "/api/2.1/unity-catalog")
AGAIN = "/api/2.1/unity-catalog/delta/v1"  # the second by another name

whole = description(ENDPOINTS)
schema = schemathesis.openapi.from_dict({**whole, "paths": {
    path: each for path, each in whole["paths"].items()
    if path.startswith(ROOTS) and not path.startswith(AGAIN)}})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("schemathesis")
    with set_options(durability="none"), \
            serve(f"sqlite:///{folder}/c.db", warehouse=folder / "lake") as server:
        yield server


@pytest.mark.slow
@schema.parametrize()
@hypothesis.settings(some_requests, suppress_health_check=list(hypothesis.HealthCheck))
def test_no_request_is_answered_by_an_error_of_the_server(case: Any, server: Server) -> None:
    tables = server.service.tables
    with suppress(DeltaError):
        tables.store.namespaces.create("0")
    with suppress(DeltaError):
        dn.Catalog.over(tables.store, tables.warehouse, tables).create_table("0.0", {"id": [1]})
    known_names = {"catalog": "default", "schema": "0", "table": "0", "name": "default",
                   "full_name": "default.0.0"}
    for name, value in (case.path_parameters or {}).items():
        if name in known_names and len(str(value)) % 3:  # else hardly any request would find anything
            case.path_parameters[name] = known_names[name]
    body = case.body
    if isinstance(body, dict) and len(str(body)) % 2:
        table_id = tables.store.tables.load("0.0").table_id if tables.store.tables.find_many(["0.0"]) else ""
        for each in body.get("requirements") or ():
            if isinstance(each, dict) and "uuid" in each:
                each["uuid"] = table_id
        for name in ("table", "source"):
            if name in body:
                body[name] = {"namespace": ["0"], "name": "0"}
        for name in ("table-ids", "table-id"):
            if name in body:
                body[name] = [table_id] if name == "table-ids" else table_id
    case.call_and_validate(base_url=server.url, checks=[
        not_a_server_error, status_code_conformance, response_schema_conformance])
