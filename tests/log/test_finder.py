"""Few texts found among very many: the same rows as ``is_in`` finds, whatever the texts are like."""

from __future__ import annotations

import random
import uuid
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltanb.log import file_set, finder
from deltanb.log.file_set import FileSet
from deltanb.log.finder import Finder
from deltanb.log.replay import Delta, feed, key_array
from tests.examples import few


@pytest.fixture(autouse=True)
def _few_rows_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finder, "MIN_ROWS", 100)
    monkeypatch.setattr(finder, "_BLOCK", 64)


def paths(count: int, seed: int = 0) -> list[str]:
    chance = random.Random(seed)
    ids = (uuid.UUID(int=chance.getrandbits(128), version=4) for _ in range(count))
    return [f"part={n % 13}/part-{n:05}-{name}.c000.snappy.parquet" for n, name in enumerate(ids)]


def chunked(texts: list[str], sizes: list[int]) -> pa.ChunkedArray:
    """Chunks of these sizes, then the rest; each a slice of an array with something before and after it."""
    chunks, at = [], 0
    for size in [*sizes, len(texts)]:
        padded = pa.array(["é", *texts[at : at + size], "after"])
        chunks.append(padded.slice(1, len(padded) - 2))
        at += size
    return pa.chunked_array(chunks, pa.string())


def is_in(texts: pa.ChunkedArray, value_set: pa.Array) -> list[bool] | None:
    mask = pc.is_in(texts, value_set=value_set).to_pylist()
    return mask if any(mask) else None


def mask_of(finder: Finder, value_set: pa.Array) -> list[bool] | None:
    mask = finder.find(value_set)
    return None if mask is None else mask.to_pylist()


ODD = st.one_of(
    st.text(max_size=8),
    st.sampled_from(["", "a", "a%20b/é", "😀" * 12, "file:/x", "part=%2F/", "x" * 50]),
    st.builds("{}{}".format, st.text(max_size=3), st.sampled_from(paths(20))),  # end alike
    st.builds(lambda path, cut: path[:cut], st.sampled_from(paths(20)), st.integers(0, 80)),  # begin alike
)


@given(odd=st.lists(ODD, max_size=30), more=st.lists(ODD, max_size=5),
       sizes=st.lists(st.integers(0, 120), max_size=4), seed=st.integers(0, 99))
def test_finds_the_rows_that_is_in_finds(
    odd: list[str], more: list[str], sizes: list[int], seed: int
) -> None:
    chance = random.Random(seed)
    texts = [*paths(300), *odd, *chance.sample(paths(300), 5)]  # some of them twice
    chance.shuffle(texts)
    column = chunked(texts, sizes)
    value_set = pa.array([*chance.sample(texts, 7), *more, *paths(3, seed=1)], pa.string())
    assert mask_of(Finder(column), value_set) == is_in(column, value_set)


@few
@given(texts=st.lists(ODD, min_size=100, max_size=200), seed=st.integers(0, 99))
def test_texts_that_no_place_tells_apart_are_compared_as_a_whole(texts: list[str], seed: int) -> None:
    column = chunked(texts, [50])
    value_set = pa.array(random.Random(seed).sample(texts, 3), pa.string())
    assert mask_of(Finder(column), value_set) == is_in(column, value_set)


@pytest.mark.parametrize("start", range(8))
def test_a_text_is_found_wherever_it_lies_in_memory(start: int) -> None:
    texts = ["x" * start, *paths(500)]
    column = pa.chunked_array([texts])
    for row in (1, 250, 500):
        assert mask_of(Finder(column), pa.array([texts[row]])) == [text == texts[row] for text in texts]


def test_nothing_wanted_and_nothing_there() -> None:
    column = pa.chunked_array([paths(300)])
    assert Finder(column).find(pa.array([], pa.string())) is None
    assert Finder(column).find(pa.array(paths(5, seed=1))) is None
    assert Finder(pa.chunked_array([], pa.string())).find(pa.array(["a"])) is None


def test_a_damaged_text_is_no_reason_to_fail() -> None:
    damaged = pa.array([*(path.encode() for path in paths(300)), b"\xff" * 60])
    column = pa.chunked_array([pa.Array.from_buffers(pa.string(), 301, damaged.buffers())])
    assert mask_of(Finder(column), pa.array(paths(1))) == [True, *[False] * 300]


def test_few_paths_are_compared_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []

    def counted(values: Any, value_set: Any) -> Any:
        compared.append(len(values))
        return pc.is_in(values, value_set=value_set)

    texts = paths(20_000)
    column = Finder(pa.chunked_array([texts[:7000], texts[7000:]]))
    monkeypatch.setattr(finder, "pc", type("Counted", (), {"is_in": staticmethod(counted)}))
    rows = column.find(pa.array([*texts[:20], *paths(20, seed=1)]))
    monkeypatch.undo()
    assert rows is not None and pc.sum(rows).as_py() == 20
    assert sum(compared) < 300


def test_a_layer_below_is_met_by_path_and_vector(monkeypatch: pytest.MonkeyPatch) -> None:
    keys: list[int] = []

    def counted(names: Any, vectors: Any) -> Any:
        keys.append(len(names))
        return key_array(names, vectors)

    names = paths(1000)
    vector = '{"storageType":"u","pathOrInlineDv":"%s","sizeInBytes":1,"cardinality":1}'
    older, newer = Delta(), Delta()
    lines = (f'{{"add":{{"path":"{name}","size":1,"deletionVector":{vector % "a"}}}}}' for name in names)
    feed(older, "\n".join(lines).encode(), "0")
    below = FileSet().extended(older)
    assert below.num_files == 1000
    feed(newer, f'{{"remove":{{"path":"{names[3]}","deletionVector":{vector % "a"}}}}}\n'
                f'{{"remove":{{"path":"{names[4]}","deletionVector":{vector % "b"}}}}}\n'
                f'{{"remove":{{"path":"{names[5]}"}}}}'.encode(), "1")
    below.parts()
    monkeypatch.setattr(file_set, "key_array", counted)
    left = below.extended(newer).read(["path"])["path"].to_pylist()
    assert left == [name for name in names if name != names[3]]
    assert keys == [3]  # of the paths that were met
