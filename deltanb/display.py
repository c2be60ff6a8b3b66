"""What every object a person holds has in common: it can be seen.

What lives here: the mixin that asks the notebook layer for text and HTML, lazily.
What it does not know: any object, any format. ``deltanb.notebook`` knows those, and only reads.
"""

from __future__ import annotations

from typing import Any


class Displayable:
    """Gives an object its text and its MIME bundle from one list of fields.

    The text form is the first one: ``repr`` returns it, HTML repeats its headings, tests read both.
    """

    __slots__ = ()

    def fields(self) -> Any:
        """The parts of this object's picture, as the text and the HTML show them."""
        from deltanb.notebook import views

        return views.fields(self)

    def __repr__(self) -> str:
        from deltanb.notebook import bundle

        return bundle.text(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        from deltanb.notebook import bundle

        return bundle.mimebundle(self, include, exclude)
