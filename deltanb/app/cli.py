"""The command line: ``deltanb lab``, ``history PATH``, ``sql TEXT``, ``verify PATH``, ``serve``, ….

What lives here: arguments and exit codes.
What it does not know: the commands themselves, which stand beside it; the log, the views.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from deltanb._version import __version__
from deltanb.app import histories, services, site, statements, tables, topics
from deltanb.errors import DeltaError
from deltanb.text.safe_text import safe

HELP = ("-h", "--help")
UNREAD = 141  # what a shell gives a program that the signal SIGPIPE ended
EXIT_CODES = {
    0: "done",
    1: "a table or a catalog is not in order",
    2: "an error, which one line on the error stream explains",
    3: "something may be wrong with a table, or is not known",
    UNREAD: "nobody read the output to its end, as after ``| head``",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code (``EXIT_CODES``).

    Args:
        arguments: as typed after ``deltanb``; by default those of the process.

    >>> main(["history", "no/such/table"])
    2
    """
    leading, rest = _split(list(sys.argv[1:] if arguments is None else arguments))
    known = command_parser().parse_args(leading)
    try:
        if known.command == "lab":
            from deltanb.app import lab

            return lab.run(known.folder, rest)
        command: Callable[[argparse.Namespace], int | None] = known.run
        code = command(known) or 0
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # Python flushes once more as it ends, which must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNREAD
    except (DeltaError, OSError) as error:
        about = f" (deltanb help {error.topic})" if isinstance(error, DeltaError) else ""
        print(f"deltanb: {safe(' '.join(str(error).split()))}{about}", file=sys.stderr)
        return 2


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    """What is ours of a command line, and what of ``lab`` goes on to JupyterLab: its first option and
    all that follows, since only JupyterLab knows which of its options take a value."""
    if words[:1] != ["lab"]:
        return words, []
    at = next((i for i, text in enumerate(words) if text.startswith("-") and text not in HELP), len(words))
    return words[:at], words[at:]


def command_parser() -> argparse.ArgumentParser:
    """All commands and their arguments; the documentation is made from it, too.

    >>> command_parser().parse_args(["lab"]).command
    'lab'
    """
    parser = argparse.ArgumentParser(
        prog="deltanb", description="Delta Lake tables, and every commit visible."
    )
    parser.add_argument("--version", action="version", version=f"deltanb {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    lab = commands.add_parser(
        "lab",
        help="open the tutorials in JupyterLab",
        description="Open a copy of the tutorials in JupyterLab, a tour of two minutes first. What you "
        "change in the copy is yours: a newer version of the library puts its tutorials beside it. Options "
        "that follow go to JupyterLab, for instance --no-browser or --port 8889.",
    )
    lab.add_argument(
        "folder",
        nargs="?",
        type=Path,
        metavar="DIR",
        help="where your copy of the tutorials is, or goes (default ./deltanb-tutorials)",
    )
    for group in (tables, statements, histories, services, site, topics):
        group.add_to(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
