"""What a benchmark found: a figure beside its goal; as a line, as Markdown and as a chart.

What lives here: :class:`Figure`, :class:`Curve`, and what becomes of a measurement that fails.
What it does not know: how anything is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from deltanb.notebook.drawing.chart import page_of

WIDTH = 46
LETTERS = {"labelFontSize": 12, "titleFontSize": 12}
"""Of a chart, which a page shows somewhat smaller than it is."""
TOLERANCE = 0.1
"""By how much peaks of memory differ from run to run, as a share."""
HEAD = "| work | against | measured | goal | result | peak | times: other / deltanb |"


@dataclass(frozen=True)
class Curve:
    """How long something takes at several sizes: pairs of size and milliseconds; ``over`` names the size."""

    over: str
    points: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class Figure:
    """One figure: how many times faster than something else, or another ratio.

    ``goal`` is the least wanted, or with ``at_most`` the most; None is no goal. ``against`` says what it is
    compared with, ``note`` whatever else is worth knowing, as times. ``mb`` is our peak of memory, and
    ``recorded`` what it was when it was last written down; ``curve`` is drawn as a line.
    """

    suite: str
    work: str
    against: str
    value: float
    goal: float | None = None
    at_most: bool = False
    note: str = ""
    mb: float | None = None
    recorded: float | None = None
    curve: Curve | None = None

    @property
    def is_measured(self) -> bool:
        """Whether there is a value at all."""
        return self.value == self.value

    @property
    def is_above(self) -> bool:
        """Whether memory has risen over what was written down, by more than runs differ."""
        return self.mb is not None and self.recorded is not None and self.mb > self.recorded * (1 + TOLERANCE)

    @property
    def peak(self) -> str:
        """Our peak of memory, with the recorded one where that was lower."""
        if self.mb is None:
            return ""
        return f"{self.mb:.0f} MB" + (f", above {self.recorded:.0f}" if self.is_above else "")

    @property
    def verdict(self) -> str:
        """Whether the goal is met; nothing where there is none."""
        if self.goal is None:
            return ""
        met = self.value <= self.goal if self.at_most else self.value >= self.goal
        return "met" if met else "MISSED"

    @property
    def goal_text(self) -> str:
        """The goal in signs."""
        return "" if self.goal is None else f"{'≤' if self.at_most else '≥'} {self.goal:g}×"

    @property
    def _cells(self) -> tuple[str, ...]:
        value = f"{self.value:.2f}×" if self.is_measured else "–"
        return self.work, self.against, value, self.goal_text, self.verdict, self.peak, self.note

    def __str__(self) -> str:
        work, against, value, goal, verdict, peak, note = self._cells
        rest = ", ".join(text for text in (note, peak and f"ours {peak}") if text)
        return f"{work:{WIDTH}} {value:>9} {goal:>8} {verdict:6} against {against}  {rest}".rstrip()


def is_installed(peer: str) -> bool:
    """Whether a library can be imported here."""
    return find_spec(peer) is not None


def absent(suite: str, work: str, peer: str) -> Figure:
    """What cannot be compared here, for the peer is not installed: a figure without a goal.

    >>> absent("log", "open", "deltalake").verdict
    ''
    """
    return Figure(suite, work, peer, float("nan"), note=f"{peer} is not installed")


def attempt(suite: str, work: str, measure: Callable[[], Iterable[Figure]]) -> Iterator[Figure]:
    """The figures of one measurement; where it fails, one that says why, so that the rest is still measured.

    >>> [figure] = attempt("log", "open", lambda: [1 / 0])
    >>> figure.verdict, figure.note
    ('MISSED', 'ZeroDivisionError: division by zero')
    """
    try:
        yield from measure()
    except Exception as error:
        words = " ".join(f"{type(error).__name__}: {error}".split())
        yield Figure(suite, work, "", float("nan"), 1, note=words[:200])


def times(
    suite: str, work: str, against: str, theirs: dict[str, Any], ours: dict[str, Any],
    goal: float | None = None, by: str = "ms",
) -> Figure:
    """How many times faster: of measurements with ``ms`` (by the clock), ``cpu`` and, where known, ``mb``.

    ``by`` says which of the two times decides.

    >>> theirs, ours = {"ms": 30.0, "cpu": 20.0, "mb": 90}, {"ms": 10.0, "cpu": 10.0, "mb": 80}
    >>> print(times("log", "open", "deltalake", theirs, ours, 2))               # doctest: +ELLIPSIS
    open ... 3.00×     ≥ 2× met    against deltalake  30.0 / 10.0 ms, cpu 2.00×, theirs 90 MB, ours 80 MB
    """
    for measures in (theirs, ours):
        if "error" in measures:
            return Figure(suite, work, against, float("nan"), goal, note=str(measures["error"])[:120])
    other = "cpu" if by == "ms" else "ms"
    note = f"{theirs['ms']:.1f} / {ours['ms']:.1f} ms, {other if other == 'cpu' else 'clock'} " \
           f"{theirs[other] / ours[other]:.2f}×"
    if "mb" in ours and "mb" in theirs:
        note += f", theirs {theirs['mb']:.0f} MB"
    if theirs.get("result") != ours.get("result"):
        note += f", {theirs.get('result')} / {ours.get('result')}"
    return Figure(suite, work, against, theirs[by] / ours[by], goal, note=note, mb=ours.get("mb"))


def within(suite: str, work: str, value: float, bound: float, unit: str) -> Figure:
    """How much of a bound is taken, by something that has no peer to be compared with.

    >>> print(within("locks", "search", 250, 1000, "µs"))                        # doctest: +ELLIPSIS
    search ... 0.25×     ≤ 1× met    against a bound of 1000 µs  250 µs
    """
    return Figure(suite, work, f"a bound of {bound:g} {unit}", value / bound, 1, at_most=True,
                  note=f"{value:.4g} {unit}")


def markdown(figures: Sequence[Figure]) -> str:
    """A table for people to read.

    >>> print(markdown([Figure("log", "open", "deltalake", 12.5, 20, mb=95, recorded=80)]))
    | work | against | measured | goal | result | peak | times: other / deltanb |
    |---|---|---|---|---|---|---|
    | open | deltalake | 12.50× | ≥ 20× | MISSED | 95 MB, above 80 |  |
    """
    lines = [HEAD, "|---|---|---|---|---|---|---|"]
    return "\n".join([*lines, *("| " + " | ".join(figure._cells) + " |" for figure in figures)])


def summary(figures: Sequence[Figure]) -> str:
    """How many goals were met, and which were not; whose memory has risen.

    >>> print(summary([Figure("log", "open", "deltalake", 12.5, 20), Figure("log", "history", "x", 3, 2)]))
    1 of 2 goals met
    missed: log: open, against deltalake
    """
    judged = [figure for figure in figures if figure.verdict]
    missed = [figure for figure in judged if figure.verdict != "met"]
    lines = [f"{len(judged) - len(missed)} of {len(judged)} goals met"]
    lines += [f"missed: {one.suite}: {one.work}" + (f", against {one.against}" if one.against else "")
              for one in missed]
    lines += [f"memory: {one.suite}: {one.work}: {one.peak}" for one in figures if one.is_above]
    return "\n".join(lines)


def chart(figures: Iterable[Figure]) -> dict[str, Any]:
    """How near each figure is to its goal, as Vega-Lite: 1 is the goal, to the right of it is better."""
    import altair as alt

    rows = []
    for figure in figures:
        if figure.goal and figure.is_measured and figure.value:
            reached = figure.goal / figure.value if figure.at_most else figure.value / figure.goal
            rows.append({"work": f"{figure.work} ({figure.against})", "reached": round(reached, 3),
                         "goal": figure.verdict, "figure": str(figure)})
    colour = alt.Color("goal:N", scale=alt.Scale(domain=["met", "MISSED"], range=["#3477eb", "#c4500c"]))
    bars = alt.Chart(alt.Data(values=rows)).mark_point(filled=True, size=80).encode(
        alt.X("reached:Q", scale=alt.Scale(type="log"), title="times the goal; right of the line it is met"),
        alt.Y("work:N", sort=None, title=None, axis=alt.Axis(labelLimit=400)), colour, tooltip="figure:N")
    goal = alt.Chart(alt.Data(values=[{"x": 1}]))
    line = goal.mark_rule(strokeDash=[4, 3], color="#8a8f98").encode(x="x:Q")
    spec: dict[str, Any] = (line + bars).properties(
        width=400, title="Figures beside their goals").configure_axis(**LETTERS).to_dict()
    return spec


def curves(figures: Iterable[Figure]) -> dict[str, Any]:
    """Milliseconds over sizes, a line for each figure that has a curve; both axes are logarithmic."""
    import altair as alt

    rows = [{"work": figure.work, "over": figure.curve.over, "size": size, "ms": ms}
            for figure in figures if figure.curve for size, ms in figure.curve.points]
    log = alt.Scale(type="log")
    lines = alt.Chart(alt.Data(values=rows)).mark_line(point=True).encode(
        alt.X("size:Q", scale=log, title=None, axis=alt.Axis(format="~s", labelOverlap=True)),
        alt.Y("ms:Q", scale=log, title="milliseconds"), alt.Color("work:N", title=None, legend=alt.Legend(
            orient="bottom", columns=1, labelLimit=400)),
        tooltip=["work:N", "size:Q", "ms:Q"])
    facets = alt.Column("over:N", title="milliseconds by the number of")
    drawn = lines.properties(width=300, height=260).facet(facets)
    spec: dict[str, Any] = drawn.properties(title="How time grows").configure_axis(**LETTERS).to_dict()
    return spec


def write(figures: Sequence[Figure], folder: Path) -> None:
    """``figures.md``, and ``figures.html`` and ``curves.html``, which a browser draws without a network."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "figures.md").write_text(f"{markdown(figures)}\n\n{summary(figures)}\n", "utf-8")
    (folder / "figures.html").write_text(
        page_of(chart(figures), f"Figures and their goals\n{summary(figures)}"), "utf-8")
    if any(figure.curve for figure in figures):
        (folder / "curves.html").write_text(
            page_of(curves(figures), "Time over the size of a table"), "utf-8")
