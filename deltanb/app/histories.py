"""The commands that judge a table by its log, whoever wrote it: ``verify PATH``, ``check PATH``.

What lives here: their arguments and exit codes.
What it does not know: what is looked at, the views.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from deltanb.app.arguments import check_ending, version
from deltanb.text.safe_text import redacted, safe


def add_to(commands: Any) -> None:
    """Add the commands to the command line."""
    _add_verify(commands)
    _add_check(commands)


def _add_verify(commands: Any) -> None:
    verify = commands.add_parser(
        "verify", help="go through a table's log and say what is wrong with it",
        description="Go through the log of a table, whoever wrote it, and say what is wrong; nothing is "
        "written. The exit code is 0 where the table is sound, 1 where something is proved wrong, 3 where "
        "something is only possible, and 2 where the table cannot be looked at.")
    verify.add_argument("path", metavar="PATH", help="the table's folder")
    verify.add_argument("--from", dest="start", type=version, metavar="VERSION", help="default: the first")
    verify.add_argument("--to", dest="end", type=version, metavar="VERSION", help="default: the newest")
    verify.add_argument(
        "--files", choices=["none", "sample", "all"], default="sample",
        help="data files to open: none looks at the log alone, sample lists the folder, too, and reads some "
        "footers, all reads every data file of the last version (default %(default)s)")
    verify.add_argument("--json", action="store_true", help="print JSON, for programs")
    verify.add_argument("--html", metavar="FILE", type=Path, help="write a page that needs no network, too")
    verify.set_defaults(run=_verify)


def _verify(arguments: argparse.Namespace) -> int:
    from deltanb.notebook.views.verification import listing
    from deltanb.observe.verify import verify

    check_ending(arguments.html, ".html")
    report = verify(arguments.path, arguments.start, arguments.end, arguments.files)
    if arguments.html is not None:
        report.save(arguments.html)
    print(redacted(report.to_json()) if arguments.json else safe(listing(report)))
    return report.status


def _add_check(commands: Any) -> None:
    from deltanb.observe.checkup.kinds import FAIL_ON

    check = commands.add_parser(
        "check", help="say what upkeep a table needs, and by which commands",
        description="Say what upkeep a table needs, whoever wrote it: small files, skew, old logs, missing "
        "statistics and more, each with the command that mends it, what that reads, writes and saves. "
        "Nothing is written. The exit code is 0, 1 where there is a finding of a kind that --fail-on names, "
        "and 2 where the table cannot be looked at.")
    check.add_argument("path", metavar="PATH", help="the table's folder")
    check.add_argument(
        "--fail-on", nargs="+", choices=FAIL_ON, default=[], metavar="KIND", action="extend",
        help=f"kinds whose findings make the exit code 1: {', '.join(FAIL_ON)}")
    check.add_argument(
        "--files", choices=["none", "all"], help="none looks at the log alone, all lists the whole folder, "
        "too (default: the folder, in a bucket its first files)")
    check.add_argument("--json", action="store_true", help="print JSON, for programs")
    check.add_argument("--html", metavar="FILE", type=Path, help="write a page that needs no network, too")
    check.set_defaults(run=_check)


def _check(arguments: argparse.Namespace) -> int:
    from deltanb.notebook.views.checkup import listing
    from deltanb.observe.checkup import checkup

    check_ending(arguments.html, ".html")
    report = checkup(arguments.path, list_files={"none": False, "all": True}.get(arguments.files))
    if arguments.html is not None:
        report.save(arguments.html)
    print(redacted(report.to_json()) if arguments.json else safe(listing(report)))
    return int(report.fails(arguments.fail_on))
