"""One MIME bundle for every object, and what a notebook shows of a failed commit.

What lives here: which forms go out, and the promise that showing never raises: where an object cannot
be shown, the reason is.
What it does not know: what is in a view (``views``), or how it is drawn (``text``, ``html``).

The traceback of an error ends at the caller's line. The conflict of a failed commit is published as an
output of its own, above the error. The text form of that output is one sentence without times or file
names, so that two runs with the same outcome have the same text.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any

from deltanb.errors import DeltaError
from deltanb.notebook.drawing import conflict as conflict_forms
from deltanb.notebook.drawing import page as pages
from deltanb.notebook.drawing.html import Markup, tag
from deltanb.notebook.drawing.markdown import render as as_markdown
from deltanb.notebook.drawing.text import clamp, wrap
from deltanb.notebook.views import registry as views
from deltanb.options import options
from deltanb.text.formatting import MAX_COLUMNS, fit
from deltanb.text.safe_text import safe

SHOWN_IN = "_shown_in_cell"
TEXT, HTML, WIDGET = "text/plain", "text/html", "application/vnd.jupyter.widget-view+json"
GAP = re.compile(" {2,}")
"""What sets the parts of a line apart."""
BUTTONS = "its buttons need ipywidgets: pip install 'deltanb[notebook]'"
INNER = frozenset({"deltanb", "concurrent", "contextlib", "pyarrow", "pyspark", "py4j"})
"""Packages whose frames at the end of a traceback are the library's affair, not the caller's."""


def text(obj: Any) -> str:
    """The plain text of an object, at most 12 lines of 88 columns; never raises."""
    try:
        return views.text_of(obj)
    except Exception as error:
        return _reason(obj, error)


def line(obj: Any) -> str:
    """An object on one line: its class, and the first line of its text; never raises.

    >>> from deltanb.commands.result import CommandResult
    >>> print(line(CommandResult("DELETE", 3, "log")))
    <CommandResult DELETE, ✓ committed v3, log only>
    """
    cls = type(obj).__name__
    head = text(obj).partition("\n")[0]
    first, _, rest = head.partition(" ")
    rest = rest.lstrip() if cls.endswith(first) else head  # "Table" of a DeltaTable
    one = f"{cls} {GAP.sub(', ', rest)}".rstrip()
    return f"<{fit(one, MAX_COLUMNS - 2)}>"


def note(conflict: Any) -> str:
    """The text of a conflict at the end of a traceback: :func:`text` with all of the advice, and its page."""
    try:
        form = conflict_forms.to_note(views.fields(conflict))  # type: ignore[arg-type]
        return form if isinstance(conflict.exception, str) else f"{form}\n{pointer(conflict.exception)}"
    except Exception as error:
        return _reason(conflict, error)


def mimebundle(obj: Any, include: Any = None, exclude: Any = None) -> dict[str, Any]:
    """The forms of an object by MIME type; never raises. ``include``, ``exclude``: as IPython's."""
    forms = {TEXT: text(obj)}
    if options.display != "text":
        try:
            forms[HTML] = views.html_of(obj, forms[TEXT])
        except Exception as error:
            forms[TEXT] = _reason(obj, error)
    return {
        kind: form
        for kind, form in forms.items()
        if (not include or kind in include) and kind not in (exclude or ())
    }


def fields(obj: Any) -> Any:
    """The view of an object.

    Raises:
        LookupError: nothing is known of its class.
    """
    return views.fields(obj)


def markdown(obj: Any) -> str:
    """An object as Markdown, the sections of its text in full.

    Raises:
        LookupError: nothing is known of its class.
    """
    return as_markdown(views.fields(obj))


def drawing(obj: Any, name: str) -> Any:
    """A picture of an object beside its text and HTML, as the registry names it: "spec", "svg", …"""
    return views.entry_of(obj).drawings[name](obj)


def page(title: str, parts: Sequence[tuple[str, Any]]) -> str:
    """A page of its own, without its first line, with a heading and a picture for each part.

    A part is an object that has a view, pairs of names and values, or text. Pictures are drawn whatever the
    settings say, because a page is for a browser.
    """
    return pages.page(title, [(heading, _drawn(part)) for heading, part in parts])


def _drawn(part: Any) -> Markup:
    if isinstance(part, str):
        return pages.preformatted(part)
    if isinstance(part, Mapping):
        return pages.facts(part)
    as_text = text(part)
    try:
        return Markup(views.html_of(part, as_text))
    except Exception as error:
        return pages.preformatted(_reason(part, error))


def save(obj: Any, path: Any) -> Path:
    """Write the picture of an object to a file in the form its ending names; returns the path."""
    from deltanb.notebook import saving

    return saving.save(obj, path)


def shown(obj: Any, include: Any = None, exclude: Any = None) -> dict[str, Any]:
    """The forms of an object, and its controls if it has some: all of it as one output."""
    forms = mimebundle(obj, include, exclude)
    if (include and WIDGET not in include) or WIDGET in (exclude or ()):
        return forms
    panel = _panel_of(obj)
    if panel is not None:
        return {**forms, **panel.view()}
    return _naming_widgets(forms) if views.entry_of(obj).widget and _is_notebook() else forms


def _naming_widgets(forms: dict[str, Any]) -> dict[str, Any]:
    """The forms with a line that says what the buttons need, below all that they show."""
    lines = {TEXT: f"\n{BUTTONS}", HTML: tag("p", BUTTONS)}
    return {kind: form + lines.get(kind, "") for kind, form in forms.items()} if HTML in forms else forms


def publish(obj: Any) -> None:
    """Show an object with controls in the running cell of a notebook.

    Raises:
        NotImplementedError: it is to be shown by its forms alone; IPython asks for them then.
    """
    panel = _panel_of(obj) if _is_notebook() else None
    if panel is None or not panel.view():
        raise NotImplementedError
    panel.publish()


def _panel_of(obj: Any) -> Any:
    """The controls of an object, None if it has none or they are not shown; one panel serves all displays."""
    entry = views.entry_of(obj)
    if not entry.widget or options.display == "text":
        return None
    if obj.panel is None:
        try:
            widget = import_module(entry.widget)
        except ImportError:  # ipywidgets is an extra; the picture stands without its buttons
            return None
        obj.panel = widget.Panel(obj)
    return obj.panel


def render_traceback(error: BaseException) -> list[str]:
    """IPython's lines for an error of this library; never raises.

    If the error carries a conflict or a deadlock, a notebook also gets its picture, once per cell: IPython
    asks for the lines twice, for the screen and for its history. Outside of notebooks, and where text is all
    that is shown, the text form of the picture ends the traceback.
    """
    try:
        shell = _shell()
        lines = _user_traceback(error, shell)
        if isinstance(error, DeltaError):
            lines.append(pointer(type(error)))
    except Exception:
        return traceback.format_exception(type(error), error, error.__traceback__)
    cause = getattr(error, "conflict", None) or getattr(error, "cycle", None)
    try:
        if cause is None:
            return lines
        if hasattr(shell, "kernel") and options.display != "text":
            if error.__dict__.get(SHOWN_IN) != shell.execution_count:
                error.__dict__[SHOWN_IN] = shell.execution_count
                publish_conflict(cause, shell)
        else:
            lines += ["", text(cause)]
    except Exception as reason:
        lines += ["", _reason(cause, reason)]
    return lines


def publish_conflict(conflict: Any, shell: Any) -> None:
    """Show a conflict or a deadlock as an output of the running cell: its picture, a sentence as text."""
    entry = views.entry_of(conflict)
    assert entry.sentence is not None
    sentence = entry.sentence(entry.fields(conflict))
    shell.display_pub.publish(data={**mimebundle(conflict, include=[HTML]), TEXT: sentence})


def pointer(error: type[DeltaError]) -> str:
    """Where an error is explained: the command that prints its page of the reference.

    >>> from deltanb.errors import ConcurrentAppendException
    >>> pointer(ConcurrentAppendException)
    'Explained by: deltanb help concurrent-append'
    """
    return f"Explained by: deltanb help {error.topic}"


def _is_notebook() -> bool:
    try:
        return hasattr(_shell(), "kernel")
    except (ImportError, RuntimeError):
        return False


def _shell() -> Any:
    from IPython import get_ipython

    shell = get_ipython()
    if shell is None:
        raise RuntimeError("not in IPython")
    return shell


def _user_traceback(error: BaseException, shell: Any) -> list[str]:
    """The traceback down to the caller's last line, without the library's own frames.

    Causes are left out, too, and so is the note that holds the conflict as text: the picture or the text is
    shown beside the traceback.
    """
    frames = without_own_frames(error.__traceback__)
    hidden = error.__cause__, error.__suppress_context__
    error.__cause__ = None  # hides the context, too
    try:
        with _without_picture(error):
            lines = shell.InteractiveTB.structured_traceback(type(error), error, frames, tb_offset=None)
    finally:
        error.__cause__, error.__suppress_context__ = hidden
    return list(lines)


@contextmanager
def _without_picture(error: Any) -> Iterator[None]:
    """Within the block, the error lacks the note that repeats its picture."""
    if getattr(error, "conflict", None) is None:
        yield
        return
    notes, picture = error.__notes__, safe(note(error.conflict))
    error.__notes__ = [one for one in notes if one != picture]
    try:
        yield
    finally:
        error.__notes__ = notes


def without_own_frames(frames: TracebackType | None) -> TracebackType | None:
    """A copy of the traceback without the last frames, those of this package and of what it calls.

    The error's own traceback stays whole: ``traceback.print_exception(error)`` and ``%debug`` have
    every frame.
    """
    chain = []
    while frames is not None:
        chain.append(frames)
        frames = frames.tb_next
    while len(chain) > 1 and _is_own(chain[-1]):
        chain.pop()
    trimmed: TracebackType | None = None
    for frame in reversed(chain):
        trimmed = TracebackType(trimmed, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return trimmed


def _is_own(frame: TracebackType) -> bool:
    return str(frame.tb_frame.f_globals.get("__name__", "")).split(".")[0] in INNER


def _reason(obj: Any, error: Exception) -> str:
    reason = f"{type(error).__name__}: {error}"
    return clamp([f"{type(obj).__name__} cannot be shown", *wrap(reason, max_lines=4)])
