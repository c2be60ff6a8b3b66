"""The stepper's buttons: what a person in a notebook presses, on ipywidgets alone.

What lives here: :class:`Panel`, the controls around the picture of a stepper, kept in step with it.
What it does not know: what a button does to the commit (``observe/stepper.py``), what the picture
shows (``drawing/stepper.py``).

One panel serves all displays of a stepper, as views of one model. Nothing is printed, because a notebook
hides what a button prints. The slider only moves through the trace; only the button "step" goes on with the
commit.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

import ipywidgets as w

from deltanb.notebook import bundle
from deltanb.notebook.widgets import panel
from deltanb.observe import rivals
from deltanb.text import formatting as units

MAX_MESSAGE = 300  # characters of an error beside the buttons: a conflict's are all in the picture
WRAPPED = {"flex_flow": "row wrap", "align_items": "center"}


class Panel(panel.Panel):
    """Buttons, a slider over the trace, a choice of rivals, and the picture between them."""

    def __init__(self, stepper: Any) -> None:
        super().__init__()
        self.stepper, self._is_drawing = stepper, False
        self.first = self._button("|◀ first", "Look at the first frame", lambda: stepper.move(0))
        self.back = self._button("◀ back", "Look at the frame before; nothing is undone",
                                 lambda: stepper.move(stepper.position - 1))
        self.next = self._button("step ▶", "", self._go_on)
        self.last = self._button("last ▶|", "Look at the newest frame",
                                 lambda: stepper.move(len(stepper.frames) - 1))
        self.slider = w.IntSlider(
            min=0, max=1, readout=False, description="moment",
            tooltip="The moments so far; arrow keys move", layout=w.Layout(width="18em"))
        self.kind = w.Dropdown(
            options=[(words, kind) for kind, words in rivals.KINDS.items()],
            tooltip="What another writer does", layout=w.Layout(width="24em"))
        self.rival = self._button("let another writer win now", "A real commit, by someone else",
                                  self.let_win, width="15em")
        self.table = w.Dropdown(
            options=stepper.tables, tooltip="The table that the other writer commits to",
            layout=w.Layout(width="14em"))
        self.message = w.HTML()
        moves = [self.first, self.back, self.next, self.last, self.slider]
        self.root = w.VBox([
            w.HBox(moves, layout=w.Layout(**WRAPPED)), self.picture,
            w.HBox([*([self.table] if len(stepper.tables) > 1 else []), self.kind, self.rival, self.message],
                   layout=w.Layout(**WRAPPED))])
        self.slider.observe(self._slide, names="value")
        for choice in (self.kind, self.table):
            choice.observe(lambda _: self.draw(), names="value")
        stepper.listen(self.draw)
        self.draw()

    def let_win(self) -> str:
        """The label of the button that lets another writer win."""
        return str(self.stepper.let_win(self.kind.value, **self._of_several()))

    def refusal(self) -> str | None:
        """Why the chosen rival has nothing to do."""
        reason: str | None = self.stepper.refusal(self.kind.value, **self._of_several())
        return reason

    def _of_several(self) -> dict[str, str]:
        """The chosen table, if there is a choice."""
        return {"table": self.table.value} if len(self.stepper.tables) > 1 else {}

    def draw(self) -> None:
        """Show the stepper as it is now.

        The picture comes last: each change is a message of its own, and whoever sees the picture finds the
        buttons ready.
        """
        stepper, self._is_drawing = self.stepper, True
        newest = len(stepper.frames) - 1
        is_newest = stepper.position == newest
        self.slider.max = max(1, newest)  # a slider of one moment cannot be drawn
        self.slider.value = stepper.position
        self.slider.disabled = newest == 0
        self.first.disabled = self.back.disabled = stepper.position == 0
        self.last.disabled = is_newest
        self.next.disabled = is_newest and stepper.is_done
        self.next.description = "step ▶" if is_newest else "next ▶"
        self.next.tooltip = ("Go on with the commit by one step" if is_newest
                             else "Look at the frame after")
        reason = None if stepper.is_done else self.refusal()
        self.rival.disabled = stepper.is_done or reason is not None
        self._say(reason or "")
        self.show(bundle.mimebundle(stepper.frame))
        self._is_drawing = False

    def _button(
        self, words: str, tooltip: str, act: Callable[[], Any], width: str = "auto"
    ) -> w.Button:
        button = w.Button(description=words, tooltip=tooltip, layout=w.Layout(width=width))
        button.on_click(lambda _: self._try(act))
        return button

    def _try(self, act: Callable[[], Any]) -> None:
        """Do it; an error is shown beside the buttons."""
        try:
            self._say(str(act()))
        except Exception as error:
            self._say(f"{type(error).__name__}: {error}")

    def _go_on(self) -> str:
        stepper = self.stepper
        if stepper.position < len(stepper.frames) - 1:
            return str(stepper.move(stepper.position + 1))
        return str(stepper.advance())

    def _slide(self, change: Any) -> None:
        if not self._is_drawing:
            self._try(lambda: self.stepper.move(change["new"]))

    def _say(self, words: str) -> None:
        words = units.clean(words)
        self.message.value = escape(words if len(words) <= MAX_MESSAGE else words[:MAX_MESSAGE] + "…")
