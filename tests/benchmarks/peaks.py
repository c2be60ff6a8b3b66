"""Peaks of memory as they were last written down, beside which each run's are held.

What lives here: ``peaks.json``, by suite and work; :func:`beside` and :func:`record`; and how a process reads
its own peak. What it does not know: what is measured.
"""

from __future__ import annotations

import json
import resource
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from tests.benchmarks.figures import Figure

RECORD = Path(__file__).with_suffix(".json")


def peak_memory() -> float:
    """MB at most resident; the kernel's own mark, for ``ru_maxrss`` remembers the parent's."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def beside(figure: Figure) -> Figure:
    """The figure with the peak that was written down for it."""
    return replace(figure, recorded=_known().get(_key(figure)))


def record(figures: Iterable[Figure]) -> None:
    """Write the peaks of these figures down, over those of the same work."""
    known = _known()
    known.update({_key(one): round(one.mb) for one in figures if one.mb is not None and one.is_measured})
    RECORD.write_text(json.dumps(known, indent=1, sort_keys=True, ensure_ascii=False) + "\n", "utf-8")


def _known() -> dict[str, float]:
    peaks: dict[str, float] = json.loads(RECORD.read_text("utf-8")) if RECORD.exists() else {}
    return peaks


def _key(figure: Figure) -> str:
    return f"{figure.suite}: {figure.work}, against {figure.against}"
