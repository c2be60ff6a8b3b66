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
from typing import Any

import ipywidgets as w

from deltanb.notebook import bundle
from deltanb.notebook.widgets.panel import Moments, message_of, row
from deltanb.observe import rivals


class Panel(Moments):
    """Buttons, a slider over the trace, a choice of rivals, and the picture between them."""

    def __init__(self, stepper: Any) -> None:
        super().__init__(
            stepper, first="Look at the first frame", back="Look at the frame before; nothing is undone",
            last="Look at the newest frame", slider="The moments so far; arrow keys move", moment="moment")
        self.stepper = stepper
        self.kind = w.Dropdown(
            options=[(words, kind) for kind, words in rivals.KINDS.items()],
            tooltip="What another writer does", layout=w.Layout(width="24em"))
        self.rival = self._button("let another writer win now", "A real commit, by someone else",
                                  self.let_win, width="15em")
        self.table = w.Dropdown(
            options=stepper.tables, tooltip="The table that the other writer commits to",
            layout=w.Layout(width="14em"))
        self.message = w.HTML()
        choices = [*([self.table] if len(stepper.tables) > 1 else []), self.kind]
        self.root = w.VBox([self.moves, self.picture, row(*choices, self.rival, self.message)])
        for choice in (self.kind, self.table):
            choice.observe(lambda _: self.draw(), names="value")
        stepper.listen(self.draw)
        self.draw()

    @property
    def newest(self) -> int:
        """The index of the newest frame."""
        return len(self.stepper.frames) - 1

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

    def go_on(self) -> str:
        """Show the frame after this one; at the newest one, go on with the commit."""
        stepper = self.stepper
        return str(stepper.advance() if stepper.position == self.newest else super().go_on())

    def draw(self) -> None:
        """Show the stepper as it is now.

        The picture comes last: each change is a message of its own, and whoever sees the picture finds the
        buttons ready.
        """
        stepper = self.stepper
        is_newest = stepper.position == self.newest
        self.draw_moves(can_go_on=not (is_newest and stepper.is_done))
        self.next.description = "step ▶" if is_newest else "next ▶"
        self.next.tooltip = ("Go on with the commit by one step" if is_newest
                             else "Look at the frame after")
        reason = None if stepper.is_done else self.refusal()
        self.rival.disabled = stepper.is_done or reason is not None
        self._say(reason or "")
        self.show(bundle.mimebundle(stepper.frame))

    def _try(self, act: Callable[[], Any]) -> None:
        """Do it; an error is shown beside the buttons."""
        try:
            self._say(str(act()))
        except Exception as error:
            self._say(f"{type(error).__name__}: {error}")

    def _say(self, words: str) -> None:
        self.message.value = message_of(words)
