"""What every object a person holds has in common: it can be seen.

What lives here: the mixin that asks the views for text, HTML and drawings, and the one way from objects up
to what draws them (:func:`views`).
What it does not know: any object, any format. ``deltanb.notebook`` knows those, and only reads.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from deltanb.text.spellings import answer_wrong_arguments

VIEWS = "deltanb.notebook.bundle"
"""The module that draws, by name: nothing below it imports it, and it is loaded when something is shown."""


def views() -> Any:
    """The module that draws."""
    return import_module(VIEWS)


@answer_wrong_arguments(only=("save",))
class Displayable:
    """Gives an object its text and its MIME bundle from one list of fields.

    The text form is the first one: ``print`` and notebooks show it, HTML repeats its headings, tests read
    both. ``repr`` is one line, for lists, logs and failed assertions.

    >>> import deltanb as dn
    >>> from deltanb.testing import MemoryStore
    >>> history = dn.create(MemoryStore(), {"id": [1]}).history()
    >>> isinstance(history, Displayable), sorted(history._repr_mimebundle_())
    (True, ['text/html', 'text/plain'])
    """

    __slots__ = ()

    def fields(self) -> Any:
        """The parts of this object's picture, as the text and the HTML show them.

        >>> import deltanb as dn
        >>> dn.create("shown", {"id": [1]}).fields().headings[:2]
        ('Table', 'Schema')
        """
        return views().fields(self)

    def __repr__(self) -> str:
        line: str = views().line(self)
        return line

    def __str__(self) -> str:
        text: str = views().text(self)
        return text

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        forms: dict[str, Any] = views().shown(self, include, exclude)
        return forms

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write this object's picture to a file.

        Args:
            path: ends in ``.html`` for a page that needs nothing else, in ``.svg`` or ``.png`` for a drawing.
                A file that is there is replaced.

        Returns:
            The file that was written.

        Raises:
            InvalidArgument: no path; another ending; no such folder; ``.svg`` or ``.png`` of what is a page
                and no drawing: timelines are drawings.
            MissingDependency: ``.png``, and no converter is installed.

        >>> import deltanb as dn
        >>> table = dn.create("pond", {"name": ["Donald", "Daisy"]})
        >>> _ = table.delete("name = 'Daisy'")
        >>> table.timeline().save("pond.svg").name
        'pond.svg'
        >>> _ = table.history().save("pond.html")
        """
        written: Path = views().save(self, path)
        return written


@answer_wrong_arguments(only=("listen",))
class Interactive(Displayable):
    """What moves, and has controls for that in a notebook.

    A notebook gets two outputs of it: the controls, and the picture that is left where they are not.

    >>> import deltanb as dn
    >>> from deltanb.testing import MemoryStore
    >>> isinstance(dn.create(MemoryStore(), {"id": [1]}).time_travel(), Interactive)
    True
    """

    def __init__(self) -> None:
        self.panel: Any = None
        """Its controls, once a notebook has shown it."""
        self._listeners: list[Callable[[], None]] = []

    def listen(self, listener: Callable[[], None]) -> None:
        """Call this function, without arguments, whenever something else is shown.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [1]})
        >>> _ = table.append({"id": [2]})
        >>> travel, versions = table.time_travel(), []
        >>> travel.listen(lambda: versions.append(travel.frame.version))
        >>> _ = travel.at(0)
        >>> versions
        [0]
        """
        self._listeners.append(listener)

    def _call_listeners(self) -> None:
        for listener in self._listeners:
            listener()

    def _ipython_display_(self) -> None:
        views().publish(self)


class Charted(Displayable):
    """What has a chart, too: as a Vega-Lite specification, as Altair's and as SVG.

    >>> import deltanb as dn
    >>> from deltanb.testing import MemoryStore
    >>> isinstance(dn.create(MemoryStore(), {"id": [1]}).timeline(), Charted)
    True
    """

    __slots__ = ()

    @property
    def spec(self) -> dict[str, Any]:
        """The picture as a Vega-Lite specification.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> sorted(dn.create(MemoryStore(), {"id": [1]}).timeline().spec)[:2]
        ['$schema', 'config']
        """
        spec: dict[str, Any] = views().drawing(self, "spec")
        return spec

    @property
    def chart(self) -> Any:
        """The picture as an Altair chart, which can be changed.

        Raises:
            MissingDependency: Altair is not installed.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> chart = dn.create(MemoryStore(), {"id": [1]}).timeline().chart
        >>> chart.properties(title="Ducks").to_dict()["title"]
        'Ducks'
        """
        return views().drawing(self, "chart")

    @property
    def svg(self) -> str:
        """The picture as SVG, drawn without other tools; of a long timeline the newest versions.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> dn.create(MemoryStore(), {"id": [1]}).timeline().svg[:4]
        '<svg'
        """
        svg: str = views().drawing(self, "svg")
        return svg
