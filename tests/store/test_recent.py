"""What was fetched not long ago: bounded, by what identifies it."""

from __future__ import annotations

import pytest

import deltanb as dn
from deltanb.store.recent import MAX_RECENT, OVERHEAD, SHARE, ObjectKey, Recent, recent
from deltanb.testing.s3_server import S3Server
from tests.bucket_logs import KINDS, built, put, remove_all


def key(number: int, tag: str = "t") -> ObjectKey:
    return ObjectKey("s3|lake|t", f"{number}.json", tag, 100)


def test_those_that_were_used_longest_ago_make_room() -> None:
    objects = Recent(5 * (100 + OVERHEAD))
    for number in range(5):
        objects.keep(key(number), bytes(100))
    assert objects.content(key(0)) == bytes(100)
    objects.keep(key(5), bytes(100))
    held = [number for number in range(6) if objects.content(key(number)) is not None]
    assert held == [0, 2, 3, 4, 5] and objects.weight == 5 * (100 + OVERHEAD)


def test_the_weight_is_that_of_what_is_held_whatever_is_kept_again() -> None:
    objects = Recent(100_000)
    for size in (100, 700, 50):
        objects.keep(key(1), bytes(size))
        assert objects.weight == size + OVERHEAD
    objects.keep(key(2), bytes(100_000 // SHARE))  # more than its share
    assert objects.content(key(2)) is None and objects.weight == 50 + OVERHEAD
    objects.clear()
    assert objects.weight == 0 and objects.content(key(1)) is None


def test_each_part_of_the_key_counts() -> None:
    objects = Recent()
    objects.keep(key(1), b"one")
    for field, value in {"place": "s3|lake|u", "name": "2.json", "tag": "u", "size": 101}.items():
        assert objects.content(key(1)._replace(**{field: value})) is None
    assert objects.content(key(1)) == b"one"


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_made_anew_or_a_file_that_is_replaced_is_seen(
    kind: str, s3_server: S3Server, bucket: str
) -> None:
    uri = f"{bucket}/t"
    before = built(kind)
    put(before, s3_server, uri)
    table = dn.open(uri, storage_options=s3_server.options)
    assert table.snapshot.num_files == table.as_of(26).snapshot.num_files
    last = "_delta_log/00000000000000000026.json"
    data, _ = before.store.files[last]  # type: ignore[attr-defined]
    s3_server.store(bucket.removeprefix("s3://"), f"t/{last}", data.replace(b"f-26", b"g-26"))
    opened = dn.open(uri, storage_options=s3_server.options)
    assert "g-26" in opened.snapshot.files["path"].to_pylist(), "of the same length, and another tag"
    remove_all(s3_server, uri)
    put(built(kind, last=24), s3_server, uri)
    opened = dn.open(uri, storage_options=s3_server.options)
    assert opened.version == 24 and "f-26" not in opened.snapshot.files["path"].to_pylist()
    assert len(table.history()) == 25


def test_a_handle_that_commits_forever_holds_no_more_than_the_bound(s3_server: S3Server, bucket: str) -> None:
    recent.clear()
    table = dn.create(f"{bucket}/t", "id bigint", storage_options=s3_server.options)
    for number in range(20):
        table.set_properties({"note": f"{number}" * 100_000})
    assert 1 << 20 < recent.weight <= MAX_RECENT
