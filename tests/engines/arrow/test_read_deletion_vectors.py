"""Deletion vectors: the bytes of the protocol, the three storages, and every kind of damage."""

from __future__ import annotations

import struct
import zlib

import pytest
from pyroaring import BitMap64

from deltanb.actions import DeletionVector
from deltanb.engines.arrow import deletion_vectors as dvs
from deltanb.engines.arrow.vector_files import VectorFiles
from deltanb.errors import DataFileNotFound, InvalidArgument, InvalidTable
from deltanb.store.local import LocalStore
from deltanb.store.object import ObjectStore

SAMPLES = [
    [0],
    [3, 4, 7, 11, 18, 29],
    list(range(0, 200_000, 3)),
    list(range(1000, 100_000)),
    [1, 2**31, 2**33 + 5, 2**40],
]


@pytest.fixture
def store(tmp_path):
    return LocalStore(tmp_path, durability="none")


def test_the_inline_example_of_the_protocol_is_in_the_older_form():
    dv = DeletionVector("i", "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", 40, 6)
    assert list(dvs.load(None, dv)) == [3, 4, 7, 11, 18, 29]


def test_inline_in_the_present_form():
    text = "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"
    assert list(dvs.load(None, DeletionVector("i", text, 44, 6))) == [3, 4, 7, 11, 18, 29]


def test_the_older_form_in_little_endian_order():
    bitmap = dvs.encode(BitMap64([5, 9]))[16:]
    data = struct.pack("<III", dvs.MAGIC - 1, 1, len(bitmap)) + bitmap
    assert list(dvs.decode(data)) == [5, 9]


def test_the_relative_path_of_the_protocol_with_and_without_prefix():
    name = "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    assert dvs.relative_path("ab^-aqEH.-t@S}K{vb[*k^") == f"ab/{name}"
    assert dvs.relative_path("^-aqEH.-t@S}K{vb[*k^") == name
    with pytest.raises(InvalidTable, match="not a UUID"):
        dvs.relative_path("short")


@pytest.mark.parametrize("rows", SAMPLES, ids=len)
def test_rows_survive_all_storages(store, rows):
    bitmap = BitMap64(rows)
    assert dvs.load(store, dvs.inline(bitmap)) == bitmap
    first, second = dvs.write_file(store, [BitMap64([42]), bitmap])
    assert (first.offset, first.cardinality, second.cardinality) == (1, 1, len(rows))
    assert list(dvs.load(store, first)) == [42]
    assert dvs.load(store, second) == bitmap


def test_a_file_written_is_version_one_with_big_endian_frames(store):
    (dv,) = dvs.write_file(store, [BitMap64([7])], new_id=lambda: "0" * 31 + "1")
    content = store.read("deletion_vector_00000000-0000-0000-0000-000000000001.bin")
    data = content[5:-4]
    assert content[0] == 1
    assert content[1:5] == struct.pack(">i", dv.size_in_bytes) == struct.pack(">i", len(data))
    assert content[-4:] == struct.pack(">I", zlib.crc32(data))


@pytest.mark.parametrize("form", ["{root}/x%20y/{name}", "file://{root}/x%20y/{name}",
                                  "file:{root}/x%20y/{name}"])
def test_an_absolute_path_is_decoded(tmp_path, store, form):
    (dv,) = dvs.write_file(store, [BitMap64([1, 5])])
    name = dvs.relative_path(dv.path_or_inline_dv)
    (tmp_path / "x y").mkdir()
    (tmp_path / name).rename(tmp_path / "x y" / name)
    path = form.format(root=tmp_path, name=name)
    moved = DeletionVector("p", path, dv.size_in_bytes, 2, dv.offset)
    assert list(dvs.load(store, moved)) == [1, 5]


def test_a_row_of_the_files_table_is_as_good_as_an_action(store):
    (dv,) = dvs.write_file(store, [BitMap64([1, 5])])
    row = {"storage_type": "u", "path_or_inline_dv": dv.path_or_inline_dv, "offset": dv.offset,
           "size_in_bytes": dv.size_in_bytes, "cardinality": 2}
    assert list(dvs.load(store, row)) == [1, 5]
    with pytest.raises(InvalidArgument, match="cardinality"):
        dvs.load(store, {**row, "cardinality": None})


def test_a_missing_file_is_named(store):
    (dv,) = dvs.write_file(store, [BitMap64([1])])
    name = dvs.relative_path(dv.path_or_inline_dv)
    store.delete(name)
    with pytest.raises(DataFileNotFound) as caught:
        dvs.load(store, dv, data_file="part-1.parquet")
    assert caught.value.path == name
    assert name in str(caught.value) and "part-1.parquet" in str(caught.value)


@pytest.mark.parametrize("load", [dvs.load, VectorFiles().load], ids=["one", "many"])
@pytest.mark.parametrize("place", ["folder", "bucket"])
@pytest.mark.parametrize(
    "damage", ["checksum", "content", "size", "short", "cardinality", "offset"])
def test_damage_is_never_believed(store, damage, place, load, request):
    if place == "bucket":
        uri, server = request.getfixturevalue("bucket"), request.getfixturevalue("s3_server")
        store = ObjectStore(f"{uri}/t", server.options)
    (dv,) = dvs.write_file(store, [BitMap64([1, 2, 3])])
    name = dvs.relative_path(dv.path_or_inline_dv)
    content = bytearray(store.read(name))
    size, cardinality, offset = dv.size_in_bytes, 3, dv.offset
    if damage == "checksum":
        content[-1] ^= 1
    elif damage == "content":
        content[20] ^= 1
    elif damage == "size":
        content[4] += 1
    elif damage == "short":
        del content[-3:]
    elif damage == "cardinality":
        cardinality = 4
    else:
        offset = 9999
    store.put(name, bytes(content))
    with pytest.raises(InvalidTable, match="deletion vector"):
        load(store, DeletionVector("u", dv.path_or_inline_dv, size, cardinality, offset))


@pytest.mark.parametrize(("kind", "text", "size", "message"), [
    ("i", "abc", 2, "characters of Z85"),
    ("i", "abcde", 5, "cannot hold 5"),
    ("i", "ab~de", 4, "not a Z85 character"),
    ("i", "#####", 4, "not a Z85 group"),
    ("i", "00000", 4, "has 4 bytes"),
    ("i", "0000000000", 8, "begins with the bytes"),
    ("x", "00000", 4, "storage type 'x'"),
])
def test_nonsense_is_refused(kind, text, size, message):
    with pytest.raises(InvalidTable, match=message):
        dvs.load(None, DeletionVector(kind, text, size, 1))


@pytest.mark.parametrize("cut", range(0, 44, 3))
def test_a_truncated_bitmap_is_refused_or_shorter_never_a_crash(cut):
    data = dvs.encode(BitMap64([3, 4, 7, 11, 18, 29]))[:cut]
    with pytest.raises(InvalidTable):
        dvs.decode(data)
