"""The buttons of an order that is played, on ipywidgets alone.

What lives here: :class:`Panel`, the controls around the picture of a
:class:`~deltanb.observe.explore.play.Play`.
What it does not know: what an order is, what its picture shows.
"""

from __future__ import annotations

from typing import Any

from ipywidgets import VBox

from deltanb.notebook import bundle
from deltanb.notebook.widgets.panel import Moments


class Panel(Moments):
    """First, back, next, last, a slider over the turns, and the picture below them."""

    def __init__(self, play: Any) -> None:
        super().__init__(play, first="Before the first turn", back="One turn earlier",
                         last="After the last turn", slider="The turns taken; arrow keys move", moment="turn")
        self.play = play
        self.next.tooltip = "One turn later"
        self.root = VBox([self.moves, self.picture])
        play.listen(self.draw)
        self.draw()

    @property
    def newest(self) -> int:
        """The index of the moment after the last turn."""
        return len(self.play.moments) - 1

    def draw(self) -> None:
        """Show the order as it is now; the picture comes last, when the buttons are ready."""
        self.draw_moves(can_go_on=self.play.position < self.newest)
        self.show(bundle.mimebundle(self.play.moment))
