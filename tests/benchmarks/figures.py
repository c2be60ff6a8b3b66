"""What a benchmark found: a figure beside its goal; as a line, as Markdown and as a chart.

What lives here: :class:`Figure`. What it does not know: how anything is measured.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WIDTH = 46


@dataclass(frozen=True)
class Figure:
    """One figure: how many times faster than something else, or another ratio.

    ``goal`` is the least wanted, or with ``at_most`` the most; None is no goal. ``against`` says what it is
    held against, ``note`` whatever else is worth knowing, as times and peak memory.
    """

    suite: str
    work: str
    against: str
    value: float
    goal: float | None = None
    at_most: bool = False
    note: str = ""

    @property
    def verdict(self) -> str:
        """Whether the goal is met; nothing where there is none."""
        if self.goal is None:
            return ""
        met = self.value <= self.goal if self.at_most else self.value >= self.goal
        return "met" if met else "MISSED"

    @property
    def wanted(self) -> str:
        """The goal in signs."""
        return "" if self.goal is None else f"{'≤' if self.at_most else '≥'} {self.goal:g}×"

    @property
    def _cells(self) -> tuple[str, ...]:
        return self.work, self.against, f"{self.value:.2f}×", self.wanted, self.verdict, self.note

    def __str__(self) -> str:
        work, against, value, wanted, verdict, note = self._cells
        return f"{work:{WIDTH}} {value:>9} {wanted:>8} {verdict:6} against {against}  {note}".rstrip()


def times(
    suite: str, work: str, against: str, theirs: dict[str, Any], ours: dict[str, Any],
    goal: float | None = None, by: str = "ms",
) -> Figure:
    """How many times faster: of measurements with ``ms`` (by the clock), ``cpu`` and, where known, ``mb``.

    ``by`` says which of the two times decides.

    >>> theirs, ours = {"ms": 30.0, "cpu": 20.0, "mb": 90}, {"ms": 10.0, "cpu": 10.0, "mb": 80}
    >>> print(times("log", "open", "deltalake", theirs, ours, 2))               # doctest: +ELLIPSIS
    open ... 3.00×     ≥ 2× met    against deltalake  30.0 / 10.0 ms, cpu 2.00×, 90 / 80 MB
    """
    for found in (theirs, ours):
        if "error" in found:
            return Figure(suite, work, against, float("nan"), goal, note=str(found["error"])[:120])
    other = "cpu" if by == "ms" else "ms"
    note = f"{theirs['ms']:.1f} / {ours['ms']:.1f} ms, {other if other == 'cpu' else 'clock'} " \
           f"{theirs[other] / ours[other]:.2f}×"
    if "mb" in ours:
        note += f", {theirs['mb']:.0f} / {ours['mb']:.0f} MB"
    if theirs.get("result") != ours.get("result"):
        note += f", {theirs.get('result')} / {ours.get('result')}"
    return Figure(suite, work, against, theirs[by] / ours[by], goal, note=note)


def markdown(figures: Sequence[Figure]) -> str:
    """A table for people to read.

    >>> print(markdown([Figure("log", "open", "deltalake", 12.5, 20)]))
    | work | against | measured | goal | | |
    |---|---|---|---|---|---|
    | open | deltalake | 12.50× | ≥ 20× | MISSED |  |
    """
    lines = ["| work | against | measured | goal | | |", "|---|---|---|---|---|---|"]
    return "\n".join([*lines, *("| " + " | ".join(figure._cells) + " |" for figure in figures)])


def chart(figures: Iterable[Figure]) -> dict[str, Any]:
    """How near each figure is to its goal, as Vega-Lite: 1 is the goal, to the right of it is better."""
    import altair as alt

    rows = []
    for figure in figures:
        if figure.goal and figure.value == figure.value and figure.value:
            reached = figure.goal / figure.value if figure.at_most else figure.value / figure.goal
            rows.append({"work": f"{figure.work} ({figure.against})", "reached": round(reached, 3),
                         "goal": figure.verdict, "figure": str(figure)})
    colour = alt.Color("goal:N", scale=alt.Scale(domain=["met", "MISSED"], range=["#3477eb", "#c4500c"]))
    bars = alt.Chart(alt.Data(values=rows)).mark_point(filled=True, size=80).encode(
        alt.X("reached:Q", scale=alt.Scale(type="log"), title="of its goal (1: reached)"),
        alt.Y("work:N", sort=None, title=None, axis=alt.Axis(labelLimit=400)), colour, tooltip="figure:N")
    line = alt.Chart(alt.Data(values=[{"x": 1}])).mark_rule(strokeDash=[4, 3]).encode(x="x:Q")
    spec: dict[str, Any] = (line + bars).properties(width=480, title="Figures beside their goals").to_dict()
    return spec


def write(figures: Sequence[Figure], folder: Path) -> None:
    """``figures.md`` and ``figures.vl.json``, which JupyterLab draws."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "figures.md").write_text(markdown(figures) + "\n", "utf-8")
    (folder / "figures.vl.json").write_text(json.dumps(chart(figures)), "utf-8")
