"""What widgets have in common: the picture between the controls, and what is left of it in a saved file.

What lives here: :class:`Panel`, the base of all widgets, and the two outputs that a notebook gets of one;
:class:`Moments`, the base of those that go through moments, with the controls for that.
What it does not know: which other controls there are (``stepper``, ``time_travel``), what the picture shows.

A page made of a notebook, or a notebook whose kernel has ended, shows no widget. So the picture is also in
a second output, as HTML and text, which is replaced whenever the picture changes. The widget's own output
cannot have it: a notebook that is sent an update of that one makes all controls anew. While the widget is on
the page, a rule within its picture hides the second output, whatever the host.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape
from typing import Any

import ipywidgets as w
from IPython.display import publish_display_data

from deltanb.notebook.drawing.html import stylesheet
from deltanb.text import formatting as units

MAX_MESSAGE = 300  # characters of an error beside controls: a conflict's are all in the picture
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


class Moments(Panel):
    """First, back, next, last, and a slider over moments, of which the one at ``position`` is shown.

    What is shown is moved by its ``move``, which takes an index; :meth:`draw_moves` follows it.
    """

    def __init__(self, shown: Any, *, first: str, back: str, last: str, slider: str, moment: str) -> None:
        """Make the controls, with their tooltips; ``moment`` is the word beside the slider."""
        super().__init__()
        self._shown, self._is_drawing = shown, False
        self.first = self._button("|◀ first", first, lambda: shown.move(0))
        self.back = self._button("◀ back", back, lambda: shown.move(shown.position - 1))
        self.next = self._button("next ▶", "", self.go_on)
        self.last = self._button("last ▶|", last, lambda: shown.move(self.newest))
        self.slider = w.IntSlider(min=0, max=1, readout=False, description=moment, tooltip=slider,
                                  layout=w.Layout(width="18em"))
        self.slider.observe(self._slide, names="value")
        self.moves = row(self.first, self.back, self.next, self.last, self.slider)

    @property
    def newest(self) -> int:
        """The index of the last moment."""
        raise NotImplementedError

    def go_on(self) -> Any:
        """Show the moment after this one."""
        return self._shown.move(self._shown.position + 1)

    def draw_moves(self, can_go_on: bool) -> None:
        """Let the controls be as the position is."""
        self._is_drawing, at = True, self._shown.position
        self.slider.max = max(1, self.newest)  # a slider of one moment cannot be drawn
        self.slider.value = at
        self.slider.disabled = self.newest == 0
        self.first.disabled = self.back.disabled = at == 0
        self.last.disabled = at == self.newest
        self.next.disabled = not can_go_on
        self._is_drawing = False

    def _button(self, words: str, tooltip: str, act: Callable[[], Any], width: str = "auto") -> w.Button:
        button = w.Button(description=words, tooltip=tooltip, layout=w.Layout(width=width))
        button.on_click(lambda _: self._try(act))
        return button

    def _try(self, act: Callable[[], Any]) -> None:
        act()

    def _slide(self, change: Any) -> None:
        if not self._is_drawing:
            self._try(lambda: self._shown.move(change["new"]))


def row(*controls: w.Widget) -> w.HBox:
    """Controls beside each other, on as many lines as they take."""
    return w.HBox(controls, layout=w.Layout(flex_flow="row wrap", align_items="center"))


def message_of(words: str) -> str:
    """A message as HTML: on one line, and not too long to stand beside controls."""
    words = units.clean(words)
    return escape(words if len(words) <= MAX_MESSAGE else words[:MAX_MESSAGE] + "…")
