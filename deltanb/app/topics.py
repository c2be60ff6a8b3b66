"""``deltanb help TOPIC``: why an error is raised, and the way out.

What lives here: the page of an error as a terminal shows it, made from the docstring of its class.
What it does not know: what any error means.
"""

from __future__ import annotations

import argparse
import inspect
import re
from typing import Any

from deltanb.errors import DeltaError, InvalidArgument, topics
from deltanb.text.formatting import did_you_mean


def add_to(commands: Any) -> None:
    """Add the command to the command line."""
    about = commands.add_parser(
        "help", help="explain an error: its cause, an example, the way out",
        description="Explain an error by the name of its page, as in: deltanb help concurrent-append. Its "
        "class or its code will do, too. Without a name, list all of them.")
    about.add_argument("topic", nargs="?", metavar="TOPIC", help="the name of the error")
    about.set_defaults(run=_help)


def _help(arguments: argparse.Namespace) -> None:
    if arguments.topic is None:
        width = max(map(len, topics()))
        for topic, cls in topics().items():
            print(f"{topic:<{width}}  {first_line(cls)}")
    else:
        print(explained(arguments.topic))


def explained(name: str) -> str:
    """The page of an error, by its topic, its class or its code.

    >>> print(explained("VersionNotFound").splitlines()[0])
    VersionNotFound (version-not-found)

    Raises:
        InvalidArgument: no error has this name.
    """
    known = topics()
    for cls in known.values():
        if name in (cls.topic, cls.__name__, cls.kind):
            title = f"{cls.__name__} ({cls.topic})"
            return f"{title}\n{'=' * len(title)}\n\n{_plain(inspect.getdoc(cls) or '')}"
    hint, _ = did_you_mean(name, known, "names")
    raise InvalidArgument(f"no error is called {name!r}; {hint}; deltanb help lists all of them", topic=name)


def first_line(cls: type[DeltaError]) -> str:
    """Why an error is raised, in a sentence."""
    return _plain(" ".join((inspect.getdoc(cls) or "").partition("\n\n")[0].split()))


def _plain(text: str) -> str:
    """A docstring without its marks."""
    text = re.sub(r":[a-z:]+:`~?(?:[\w.]+\.)?([\w]+)`", r"\1", text)
    return re.sub(r"``(.+?)``", r"\1", text)
