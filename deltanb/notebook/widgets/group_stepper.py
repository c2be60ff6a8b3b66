"""The buttons of a stepper of several tables: those of a stepper, and the table that a rival commits to.

What lives here: :class:`Panel`.
What it does not know: what a button does to the commit (``observe/group_stepper.py``).
"""

from __future__ import annotations

from typing import Any

import ipywidgets as w

from deltanb.notebook.widgets import stepper


class Panel(stepper.Panel):
    """As the panel of a commit of one table, with a choice of tables."""

    def choices(self) -> list[Any]:
        """The tables of the transaction."""
        self.table = w.Dropdown(options=self.stepper.tables, layout=w.Layout(width="14em"),
                                tooltip="The table that the other writer commits to")
        self.table.observe(lambda _: self.draw(), names="value")
        return [self.table]

    def let_win(self) -> str:
        """A commit to the chosen table."""
        return str(self.stepper.let_win(self.kind.value, self.table.value))

    def refusal(self) -> str | None:
        """As far as the chosen table goes."""
        found: str | None = self.stepper.refusal(self.kind.value, self.table.value)
        return found
