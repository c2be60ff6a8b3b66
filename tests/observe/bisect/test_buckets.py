"""Bisections of tables in a bucket that are given by URI: one, one that is damaged, and several."""

from __future__ import annotations

from typing import Any

import pytest

import deltanb as dn
from deltanb import errors
from deltanb.log.commits import commit_name
from deltanb.testing.s3_server import S3Server

pytest.importorskip("obstore")


@pytest.fixture
def uri(s3_server: S3Server, bucket: str) -> str:
    """A table whose value is its version."""
    table = dn.create(f"{bucket}/lake/counts", {"n": [0]}, storage_options=s3_server.options)
    for value in range(1, 8):
        table.overwrite({"n": [value]})
    dn.flush()
    dn.DeltaLog.clear_cache()
    return str(table.path)


def test_one_table_and_several(uri: str, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    bisection = dn.bisect(uri, "n < 5", storage_options=s3_server.options)
    assert (bisection.first_bad, bisection.last_good) == (5, 4)

    def small(tables: Any) -> bool:
        return all(table.to_arrow()["n"][0].as_py() < 5 for table in tables.values())

    for several in ([uri], {"counts": uri}):
        bisection = dn.bisect(several, small, storage_options=s3_server.options)
        assert bisection.first_bad.versions == {"counts": 5}


def test_one_that_cannot_be_opened_for_its_newest_commit_is_damaged(uri: str, s3_server: S3Server) -> None:
    store = dn.DeltaLog.for_table(uri, s3_server.options).store
    assert store.put_if_absent(commit_name(8), b"{")
    dn.DeltaLog.clear_cache()
    with pytest.raises(errors.InvalidTable):
        dn.open(uri, storage_options=s3_server.options)
    bisection = dn.bisect(uri, "n < 5", storage_options=s3_server.options)
    assert (bisection.first_bad, bisection.last_good) == (5, 4)
