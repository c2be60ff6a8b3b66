"""How time and memory grow from one million files to ten: opening, planning a selective query, one commit.

    python -m tests.benchmarks scale [--quick] [--rounds N] [--only TEXT]

The logs are V2 checkpoints with sidecars of 100,000 files each, written as they are generated. Each
measurement is a process of its own; its time is the processor's, its memory the most that was resident. What
ten times as many files take is compared with what a tenth takes.
"""

from __future__ import annotations

import json
import multiprocessing
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # where it runs as a script of its own, for one measurement

from tests.benchmarks import log  # noqa: E402
from tests.benchmarks.figures import Curve, Figure, attempt  # noqa: E402
from tests.benchmarks.peaks import peak_memory  # noqa: E402

SUITE = "scale"
SIZES = (1_000_000, 10_000_000)
SIDECAR = 100_000
MAX_RATIO = 12
Figures = dict[str, dict[int, dict[str, float]]]


def figures(quick: bool = False, rounds: int = 1, only: str = "") -> Iterator[Figure]:
    """Time and memory of each work."""
    sizes = [size // log.QUICK_SCALE for size in SIZES] if quick else list(SIZES)
    yield from attempt(SUITE, "scale", partial(grown, sizes, rounds, only))


def grown(sizes: list[int], rounds: int, only: str) -> Iterator[Figure]:
    """The figures of all sizes, whose tables are there one at a time."""
    works = [work for work in WORKS if only in work]
    numbers: Figures = {work: {} for work in works}
    for size in sizes:
        for work, figure in measured(works, size, rounds).items():
            numbers[work][size] = figure
    for work in works:
        yield from ratios(work, numbers[work], sizes)


def ratios(work: str, numbers: dict[int, dict[str, float]], sizes: list[int]) -> Iterator[Figure]:
    """The largest against the smallest."""
    small, large = numbers[sizes[0]], numbers[sizes[-1]]
    title = f"{work}, {sizes[0]:,} to {sizes[-1]:,} files"
    for kind, unit in (("cpu", "ms"), ("mb", "MB")):
        words = ", ".join(f"{size:,}: {numbers[size][kind]:,.0f}" for size in sizes)
        curve = Curve("files", tuple((size, numbers[size][kind]) for size
                                     in sizes)) if kind == "cpu" else None
        yield Figure(SUITE, f"{title}: {'time' if kind == 'cpu' else 'memory'}", f"{sizes[0]:,} files",
                     large[kind] / small[kind], MAX_RATIO, at_most=True, mb=large["mb"],
                     note=f"{words} {unit}", curve=curve)


def measured(works: list[str], size: int, rounds: int) -> dict[str, dict[str, float]]:
    """Each work on a table of its own size, the least of all rounds."""
    folder = Path(tempfile.mkdtemp(prefix="deltanb-scale-"))
    try:
        builder = multiprocessing.get_context("spawn").Process(target=make, args=(folder / "t", size))
        builder.start()
        builder.join()
        if builder.exitcode:
            raise RuntimeError(f"the table of {size:,} files could not be made")
        turns = [{work: child(work, folder / "t", size) for work in works} for _ in range(rounds)]
    finally:
        shutil.rmtree(folder)
    return {work: {kind: min(turn[work][kind] for turn in turns) for kind in ("cpu", "mb")} for work in works}


# -- the log -------------------------------------------------------------------------------------


def make(table: Path, size: int) -> None:
    """A V2 checkpoint, written as it is generated, and a few commits behind it."""
    log.make_checkpoint(table, size, sidecars=-(-size // SIDECAR), adds=adds)


def adds(numbers: range, schema: Any) -> Any:
    """As :func:`log.adds_table`, by whole columns: ten million of them in a minute."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    ids = np.arange(numbers.start, numbers.stop, dtype=np.int64)
    number, low = pa.array(ids), pa.array(ids * 1000)
    part = pa.array(ids % log.PARTITIONS).cast(pa.string())
    short = padded(pa.array(ids % 100_000), 5)
    path = joined("part=", part, "/part-", short, "-", unique(ids), ".c000.snappy.parquet")
    high, nulls = pc.add(low, 999), pa.array(ids % 3)
    stats = joined('{"numRecords":1000,"minValues":{"id":', low, ',"value":', pc.divide(low, 7.0),
                   ',"name":"n', padded(low, 12), '"},"maxValues":{"id":', high,
                   ',"value":', pc.divide(high, 7.0), ',"name":"n', padded(high, 12),
                   '"},"nullCount":{"id":0,"value":', nulls, ',"name":0}}')
    kind = schema.field("add").type
    many, strings = len(ids), kind.field("tags").type
    offsets = pa.array(np.arange(many + 1, dtype=np.int32))
    columns = {
        "path": path, "partitionValues": pa.MapArray.from_arrays(offsets, pa.repeat("part", many), part),
        "size": pc.add(number, 100_000), "modificationTime": pc.add(number, 1_700_000_000_000),
        "dataChange": pa.repeat(True, many), "tags": pa.nulls(many, strings), "stats": stats}
    add = pa.StructArray.from_arrays([columns[one.name].cast(one.type) for one in kind], fields=list(kind))
    others = {one.name: pa.nulls(many, one.type) for one in schema}
    return pa.table({**others, "add": add}, schema=schema)


def joined(*parts: Any) -> Any:
    """Texts of columns and constants, beside each other."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.binary_join_element_wise(*(part if isinstance(part, str) else part.cast(pa.string())
                                         for part in parts), "")


def padded(numbers: Any, width: int) -> Any:
    """Numbers as texts with zeros in front."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.utf8_lpad(numbers.cast(pa.string()), width, "0")


def unique(ids: Any) -> Any:
    """The 32 hexadecimal digits in each name of :func:`log.file_name`: a product of 128 bits, by halves."""
    import numpy as np
    import pyarrow as pa

    ids = ids.astype(np.uint64)
    high, middle, low = (np.uint64(part) for part in (0x9E3779B97F4A7C15, 0xF39CC060, 0x5CEDC835))
    half = np.uint64(32)
    carry = (ids * middle + (ids * low >> half)) >> half
    product = np.stack([ids * high + carry, ids * (middle << half | low)], axis=1).astype(">u8")
    digits = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), np.uint16)
    texts = digits[product.view(np.uint8)]
    return pa.Array.from_buffers(pa.binary(32), len(ids), [None, pa.py_buffer(texts.tobytes())]).cast(
        pa.binary()).cast(pa.string())


# -- one measurement, in a process of its own ----------------------------------------------------


def child(work: str, path: Path, size: int) -> dict[str, float]:
    done = subprocess.run([sys.executable, __file__, work, str(path), str(size)],
                          capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["no message"])[-1])
    numbers: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return numbers


def opened(path: str, size: int) -> None:
    """All files of the newest version, as a scan wants them."""
    assert log.Deltanb().open_files(path) >= size  # those of earlier rounds' commits, too


def planned(path: str, size: int) -> None:
    """The ten files that a range of one column meets."""
    num_files = log.Deltanb().skip(path, size)
    assert num_files == 10, num_files


def appended(path: str, _: int) -> None:
    """One row, by a process that has not seen the table before."""
    import pyarrow as pa

    import deltanb as dn

    row = pa.table({"id": [1], "value": [0.5], "name": ["x"], "part": ["7"]})
    dn.open(path).append(row)
    dn.flush()


WORKS: dict[str, Callable[[str, int], None]] = {
    "open": opened, "plan a selective query": planned, "commit one file": appended}


if __name__ == "__main__":
    begun = time.process_time()
    WORKS[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
    print(json.dumps({"cpu": (time.process_time() - begun) * 1000, "mb": peak_memory()}))
