"""The commands that show a table: ``deltanb history PATH``, ``timeline PATH``, ``describe PATH``.

What lives here: their arguments. What is printed is what a table says of itself.
What it does not know: the log, the views.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from deltanb.app.arguments import check_ending, moment, positive
from deltanb.text.safe_text import safe

HISTORY_LIMIT = 20  # commits; a screenful


def add_to(commands: Any) -> None:
    """Add the commands to the command line."""
    history = commands.add_parser("history", help="list the commits of a table, newest first")
    history.add_argument("path", metavar="PATH", help="the table's folder")
    history.add_argument(
        "--limit", type=positive, default=HISTORY_LIMIT, help="how many (default %(default)s)"
    )
    history.set_defaults(run=_history)

    _add_timeline(commands)
    describe = commands.add_parser("describe", help="show what a table is at its newest version")
    describe.add_argument("path", metavar="PATH", help="the table's folder")
    describe.set_defaults(run=_describe)


def _add_timeline(commands: Any) -> None:
    timeline = commands.add_parser(
        "timeline", help="show who committed what on top of which version",
        description="Show the commits of a table as a timeline: as text here, or as a picture in a file.")
    timeline.add_argument("path", metavar="PATH", help="the table's folder")
    timeline.add_argument("--start", metavar="VERSION", help="the first version, or a time (default v0)")
    timeline.add_argument("--end", metavar="VERSION", help="the last one (default the newest)")
    timeline.add_argument("--html", metavar="FILE", type=Path, help="write a page that needs no network")
    timeline.add_argument("--svg", metavar="FILE", type=Path, help="write a drawing")
    timeline.set_defaults(run=_timeline)


def _history(arguments: argparse.Namespace) -> None:
    from deltanb.table.table import DeltaTable

    print(DeltaTable.for_path(arguments.path).history(limit=arguments.limit))


def _timeline(arguments: argparse.Namespace) -> None:
    from deltanb.table.table import DeltaTable

    start, end = (moment(text) for text in (arguments.start, arguments.end))
    timeline = DeltaTable.for_path(arguments.path).timeline(start, end)
    files = {".html": arguments.html, ".svg": arguments.svg}
    for ending, file in files.items():
        check_ending(file, ending)
    for file in filter(None, files.values()):
        timeline.save(file)
        print(safe(f"deltanb: the timeline is in {file}"))
    if not any(files.values()):
        print(timeline)


def _describe(arguments: argparse.Namespace) -> None:
    from deltanb.table.table import DeltaTable

    print(DeltaTable.for_path(arguments.path))
