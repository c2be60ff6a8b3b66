"""Requests that Schemathesis makes of the server's own description: none is answered by an error of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import hypothesis
import pytest

pytest.importorskip("schemathesis", reason="Schemathesis is not installed")

import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from deltanb.catalog.rest.endpoints import ICEBERG
from deltanb.catalog.rest.server import Server, serve
from deltanb.catalog.rest.server.openapi import description
from deltanb.errors import DeltaError
from deltanb.options import set_options
from tests.catalog.iceberg_tables import SCHEMA
from tests.examples import some_requests

CHECKS = (
    not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance)

schema = schemathesis.openapi.from_dict(description(ICEBERG))


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
        tables.create("0.0", SCHEMA)
    for name, value in (case.path_parameters or {}).items():
        if name == "prefix" or len(str(value)) % 2:  # else hardly any request would find anything
            case.path_parameters[name] = "default" if name == "prefix" else "0"
    case.call_and_validate(base_url=server.url, checks=list(CHECKS))


def test_the_description_is_one_of_openapi() -> None:
    paths = description(ICEBERG)["paths"]
    assert len(paths) == 2 * 9 + 1 and "/v1/{prefix}/transactions/commit" in paths
    names = [each["operationId"] for path in paths.values() for each in path.values()]
    assert len(set(names)) == len(names) == 33
