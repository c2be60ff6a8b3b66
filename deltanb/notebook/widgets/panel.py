"""What all widgets have in common: the picture between the controls, and what is left of it in a saved file.

What lives here: :class:`Panel`, the base of the widgets, and the two outputs that a notebook gets of one.
What it does not know: which controls there are (``stepper``, ``time_travel``), what the picture shows.

A page made of a notebook, or a notebook whose kernel has ended, shows no widget. So the picture is also in
a second output, as HTML and text, which is replaced whenever the picture changes. The widget's own output
cannot have it: a notebook that is sent an update of that one makes all controls anew. While the widget is on
the page, a rule within its picture hides the second output, whatever the host.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

import ipywidgets as w
from IPython.display import publish_display_data

from deltanb.notebook.drawing.html import stylesheet

TEXT, HTML, VIEW = "text/plain", "text/html", "application/vnd.jupyter.widget-view+json"


class Panel:
    """The controls of an object, with its picture between them.

    One panel serves all displays of its object, as views of one model.
    """

    root: w.Widget
    """All of it; set once the controls are made."""

    def __init__(self) -> None:
        self.picture = w.HTML()
        self._still: dict[str, str] = {TEXT: "", HTML: ""}
        self._is_published = False

    def view(self) -> dict[str, Any]:
        """The MIME bundle's part that shows the panel where there is a kernel."""
        forms = self.root._repr_mimebundle_()
        return {VIEW: forms[VIEW]} if VIEW in forms else {}

    def publish(self) -> None:
        """Show the panel in the running cell as two outputs: the widget, and what it last showed."""
        self._is_published = True
        # Empty forms, not none: who cannot draw the widget finds nothing here to draw, and does not complain.
        publish_display_data({**self.view(), HTML: "", TEXT: ""})
        publish_display_data(self._still, transient=self._transient())

    def show(self, forms: Mapping[str, str]) -> None:
        """Show a picture, by its MIME bundle; an output that is saved follows."""
        rich = forms.get(HTML) or f"<pre>{escape(forms[TEXT])}</pre>"
        name = self._name()
        still = {TEXT: forms[TEXT],
                 HTML: f'<div class="dnb-still {name}"><style>{stylesheet("still.css")}</style>{rich}</div>'}
        self.picture.value = f"<style>.dnb-still.{name}{{display:none}}</style>{rich}"
        is_new, self._still = still != self._still, still
        if self._is_published and is_new:
            publish_display_data(still, transient=self._transient(), update=True)

    def _name(self) -> str:
        """The class of the still picture, by which this panel's rule is about no other picture."""
        return f"dnb-{self.picture.model_id}"

    def _transient(self) -> dict[str, str]:
        return {"display_id": self._name()}
