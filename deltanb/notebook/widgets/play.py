"""The buttons of an order that is played, on ipywidgets alone.

What lives here: :class:`Panel`, the controls around the picture of a
:class:`~deltanb.observe.explore.play.Play`.
What it does not know: what an order is, what its picture shows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ipywidgets as w

from deltanb.notebook import bundle
from deltanb.notebook.widgets import panel

WRAPPED = {"flex_flow": "row wrap", "align_items": "center"}


class Panel(panel.Panel):
    """First, back, next, last, a slider over the turns, and the picture below them."""

    def __init__(self, play: Any) -> None:
        super().__init__()
        self.play, self._is_drawing = play, False
        self.first = self._button("|◀ first", "Before the first turn", play.first)
        self.back = self._button("◀ back", "One turn earlier", play.back)
        self.next = self._button("next ▶", "One turn later", play.next)
        self.last = self._button("last ▶|", "After the last turn", play.last)
        self.slider = w.IntSlider(
            min=0, max=max(1, len(play.moments) - 1), readout=False, description="turn",
            disabled=len(play.moments) < 2, tooltip="The turns taken; arrow keys move",
            layout=w.Layout(width="18em"))
        self.slider.observe(self._slide, names="value")
        controls = [self.first, self.back, self.next, self.last, self.slider]
        self.root = w.VBox([w.HBox(controls, layout=w.Layout(**WRAPPED)), self.picture])
        play.listen(self.draw)
        self.draw()

    def draw(self) -> None:
        """Show the order as it is now; the picture comes last, when the buttons are ready."""
        self._is_drawing, last = True, len(self.play.moments) - 1
        self.slider.value = self.play.position
        self.first.disabled = self.back.disabled = self.play.position == 0
        self.next.disabled = self.last.disabled = self.play.position == last
        self.show(bundle.mimebundle(self.play.moment))
        self._is_drawing = False

    def _button(self, words: str, tooltip: str, act: Callable[[], Any]) -> w.Button:
        button = w.Button(description=words, tooltip=tooltip, layout=w.Layout(width="auto"))
        button.on_click(lambda _: act())
        return button

    def _slide(self, change: Any) -> None:
        if not self._is_drawing:
            self.play.move(change["new"])
