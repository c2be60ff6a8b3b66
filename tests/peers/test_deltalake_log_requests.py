"""What opening a table, a past version and a history ask of a bucket for the log: no more than delta-rs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import deltanb as dn
from deltanb.testing.s3_server import S3Server
from tests.bucket_logs import CHECKPOINT, FILES, KINDS, LAST, built, put

pytest.importorskip("obstore")
pytest.importorskip("deltalake")

OURS: dict[str, tuple[Callable[[Callable[..., dn.DeltaTable]], Any], str]] = {
    "open": (lambda opened: opened().snapshot.version, "opened().version()"),
    "open a past version": (lambda opened: opened(version=10).snapshot.version,
                            "opened(version=10).version()"),
    "open the checkpoint's": (lambda opened: opened(version=CHECKPOINT).snapshot.version,
                              f"opened(version={CHECKPOINT}).version()"),
    "travel": (lambda opened: opened().as_of(10).snapshot.version,
               "[table.load_as_version(10) or table.version() for table in [opened()]][0]"),
    "travel a little": (lambda opened: opened().as_of(24).snapshot.version,
                        "[table.load_as_version(24) or table.version() for table in [opened()]][0]"),
    "history": (lambda opened: next(iter(opened().history())).version, "opened().history()[0]['version']"),
    "some history": (lambda opened: next(iter(opened().history(5))).version,
                     "opened().history(5)[0]['version']"),
}
"""A piece of work -> ours, and delta-rs's; both give the same."""


@pytest.mark.parametrize("kind", KINDS)
def test_requests_for_the_log_are_no_more_than_delta_rs_makes(
    kind: str, s3_server: S3Server, bucket: str, delta_rs: Callable[[str, str], Any]
) -> None:
    uri = f"{bucket}/t"
    put(built(kind), s3_server, uri)
    counts = {}
    for name, (ours, theirs) in OURS.items():
        dn.DeltaLog.clear_cache()
        with s3_server.counted() as mine:
            result = ours(lambda **settings: dn.open(uri, storage_options=s3_server.options, **settings))
        with s3_server.counted() as others:
            assert delta_rs(uri, theirs) == result, name
        counts[name] = len(mine), len(others)
    assert all(mine <= others for mine, others in counts.values()), counts


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_handle_has_read_it_does_not_fetch_again(kind: str, s3_server: S3Server, bucket: str) -> None:
    """A past version costs a listing, and the sidecars that it does not show."""
    put(built(kind), s3_server, f"{bucket}/t")
    dn.DeltaLog.clear_cache()
    with s3_server.counted() as opening:
        table = dn.open(f"{bucket}/t", storage_options=s3_server.options)
        assert table.snapshot.num_files == FILES
    with s3_server.counted() as travelling:
        assert table.as_of(24).snapshot.num_files == 24 - 24 // 5
    assert [one.method for one in travelling if "_sidecars" not in one.key] == ["GET"], travelling
    with s3_server.counted() as reading:
        assert len(table.history()) == LAST + 1
    commits = {one.key for one in opening if re.search(r"/\d{20}\.json$", one.key)}
    assert len(reading) == 1 + LAST + 1 - len(commits), list(map(str, reading))
    assert not [one.key for one in reading if one.key in commits]
