"""The slider of time travel: what a person in a notebook moves, on ipywidgets alone.

What lives here: :class:`Panel`: a slider over the versions that can be read, with two handles to compare and
a small timeline above, a box for a version or a time, and the frame below.
What it does not know: what is shown at a version (``time_travel``).

Rows are read when a handle is released, not while it moves. Errors are shown beside the box. Nothing here
changes the table: the frame shows the line of code that would.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from html import escape
from typing import Any

import ipywidgets as w

from deltanb.errors import DeltaError, InvalidArgument
from deltanb.notebook import bundle
from deltanb.notebook.drawing import mini_strip
from deltanb.notebook.widgets import panel
from deltanb.notebook.widgets.panel import message_of, row
from deltanb.text import formatting as units

MAX_STOPS = 400
"""Versions on the slider: a pixel or two each, and their names are saved in the notebook. Of more, the newest
half is there singly, those before at even distances; the box takes any version."""
BESIDE = "margin:4px 84px 0 4px"
"""Where the slider's rail is within its width: half a handle at each end, and its number behind it."""


class Panel(panel.Panel):
    """Slider, switch and box, in step with the time travel."""

    def __init__(self, travel: Any) -> None:
        super().__init__()
        self.travel = travel
        self.is_comparing = w.ToggleButton(
            value=travel.frame.diff is not None, description="compare two",
            tooltip="Two handles: what differs between two versions", layout=w.Layout(width="11em"))
        options = [("v0", 0)]
        self.one = w.SelectionSlider(options=options, description="version", continuous_update=False,
                                     layout=_wide())
        self.two = w.SelectionRangeSlider(options=options, index=(0, 0), description="versions",
                                          continuous_update=False, layout=_wide())
        self.box = w.Text(placeholder="3, or 2026-01-01T10:00:00Z", description="go to",
                          continuous_update=False, layout=w.Layout(width="24em"))
        self.strip = w.HTML(description=" ", layout=_wide())
        self.message, self.about = w.HTML(), w.HTML()
        self.root = w.VBox([
            self.strip,
            row(self.one, self.two, self.is_comparing),
            row(self.box, self.message), self.about, self.picture])
        self._is_drawing = False
        self._stops: list[int] = []
        self.one.observe(lambda _: self._slid(), names="value")
        self.two.observe(lambda _: self._slid(), names="value")
        self.is_comparing.observe(lambda _: self._slid(), names="value")
        self.box.observe(self._typed, names="value")
        travel.listen(self.draw)
        self.draw()

    def draw(self) -> None:
        """Show the current frame."""
        self._is_drawing = True
        try:
            frame, versions = self.travel.frame, self.travel.versions
            start = frame.version if frame.start is None else frame.start
            self._set_stops(stops_of(list(versions), {frame.version, start}))
            low, high = sorted((start, frame.version))
            self.one.value = frame.version
            self.two.value = (low, high)
            self.is_comparing.value = frame.diff is not None or self.is_comparing.value
            self._arrange()
            drawn = mini_strip.draw(self._stops, self.travel.tracks, {frame.version, start})
            self.strip.value = f'<div style="{BESIDE}">{drawn}</div>' if drawn else ""
            self.strip.layout.display = None if drawn else "none"
            self.show(bundle.mimebundle(frame))
            self.about.value = self._gaps(versions)
            self.message.value = ""
        finally:
            self._is_drawing = False

    def _set_stops(self, stops: list[int]) -> None:
        if stops != self._stops:
            options = [(f"v{version}", version) for version in stops]
            self.one.options = options
            self.two.options = options
            self._stops = stops

    def _arrange(self) -> None:
        """Show one slider or the other; none if there is nowhere to go."""
        comparing, many = self.is_comparing.value, len(self._stops) > 1
        self.one.layout.display = None if many and not comparing else "none"
        self.two.layout.display = None if many and comparing else "none"
        self.is_comparing.disabled = not many
        self.is_comparing.description = "✓ compare two" if comparing else "compare two"

    def _gaps(self, versions: Any) -> str:
        """What the slider leaves out, and why."""
        left = len(versions) - len(self._stops)
        words = [str(gap) for gap in versions.gaps[:3]]
        if len(versions.gaps) > 3:
            words.append(f"{units.count(len(versions.gaps) - 3, 'more gap')}, see Versions below")
        lines = [f"Not on the slider: {'; '.join(words)}."] if words else []
        if left > 0:
            lines.append(f"The slider has {units.number(len(self._stops))} of {units.number(len(versions))} "
                         "versions; type any other.")
        return f'<span style="opacity:.75">{escape(" ".join(lines))}</span>' if lines else ""

    def _slid(self) -> None:
        if self._is_drawing:
            return
        frame = self.travel.frame
        if not self.is_comparing.value:
            version = self.one.value
            if frame.diff is not None or version != frame.version:
                self._try(lambda: self.travel.at(version))
        else:
            low, high = self.two.value
            if low != high:
                self._try(lambda: self.travel.compare(low, high))
            elif frame.diff is not None or high != frame.version:
                self._try(lambda: self.travel.at(high))
            elif self._stops[0] < high:  # two handles on one spot say nothing
                before = self._stops[self._stops.index(high) - 1]
                self._try(lambda: self.travel.compare(before, high))
            else:
                self.message.value = '<span role="status">move one of the two handles to compare</span>'
        self._arrange()

    def _typed(self, change: Any) -> None:
        moments = moments_of(change["new"])
        if not moments:
            return
        if len(moments) == 1:
            self.is_comparing.set_trait("value", False)
            self._try(lambda: self.travel.at(moments[0]))
        elif len(moments) == 2:
            self._try(lambda: self.travel.compare(*moments))
        else:
            self._say("one version or time, or two with a comma between them")

    def _try(self, act: Callable[[], Any]) -> None:
        """Do it; on an error, show it beside the box, move the sliders back, and update which versions can be
        read: a vacuum may have deleted some."""
        try:
            act()
        except Exception as error:
            if isinstance(error, DeltaError) and not isinstance(error, InvalidArgument):
                with suppress(DeltaError, OSError):
                    self.travel.refresh()
            self.draw()
            self._say(f"{type(error).__name__}: {error}")

    def _say(self, words: str) -> None:
        self.message.value = f'<span role="status">✕ {message_of(words)}</span>'


def _wide() -> w.Layout:
    """A layout for one widget alone: what is hidden by it hides all that share it."""
    return w.Layout(width="34em")


def moments_of(text: str) -> list[int | str]:
    """The versions and times in a text: one, or two with a comma or an arrow between them.

    >>> moments_of(" 3 "), moments_of("v3 → v5"), moments_of("2026-01-01, 7"), moments_of("")
    ([3], [3, 5], ['2026-01-01', 7], [])
    """
    parts = [part.strip() for part in re.split(r",|→|->", text)]
    return [int(part.lstrip("v")) if re.fullmatch(r"v?\d{1,18}", part) else part for part in parts if part]


def stops_of(versions: Sequence[int], needed: set[int]) -> list[int]:
    """The versions the slider stops at, including those needed.

    >>> stops_of([0, 1, 4], {2}), len(stops_of(range(10_000), {7})), 7 in stops_of(range(10_000), {7})
    ([0, 1, 2, 4], 401, True)
    """
    chosen = list(versions)
    if len(chosen) > MAX_STOPS:
        half = MAX_STOPS // 2
        older = chosen[:-half]
        chosen = [older[at * (len(older) - 1) // (half - 1)] for at in range(half)] + chosen[-half:]
    return sorted({*chosen, *needed})
