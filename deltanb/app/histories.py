"""The commands that judge a table by its log, whoever wrote it: ``verify``, ``check`` and ``why PATH``.

What lives here: their arguments and exit codes.
What it does not know: what is looked at, the views.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deltanb.app.arguments import check_ending, version
from deltanb.errors import InvalidArgument
from deltanb.text.safe_text import redacted, safe


def add_to(commands: Any) -> None:
    """Add the commands to the command line."""
    _add_verify(commands)
    _add_check(commands)
    _add_why(commands)


def _add_verify(commands: Any) -> None:
    verify = commands.add_parser(
        "verify", help="check a table's log and say what is wrong with it",
        description="Check the log of a table, whoever wrote it, and say what is wrong; nothing is written. "
                    "The exit code is 0 if the table is sound, 1 if something is proved wrong, 3 if "
                    "something "
        "is only possible, and 2 if the table cannot be read.")
    verify.add_argument("path", metavar="PATH", help="the table's folder")
    verify.add_argument("--from", dest="start", type=version, metavar="VERSION", help="default: the first")
    verify.add_argument("--to", dest="end", type=version, metavar="VERSION", help="default: the newest")
    verify.add_argument(
        "--files", choices=["none", "sample", "all"], default="sample",
        help="data files to open: none reads only the log, sample also lists the folder and reads some "
             "footers, all reads every data file of the last version (default %(default)s)")
    verify.add_argument("--json", action="store_true", help="print JSON")
    verify.add_argument("--html", metavar="FILE", type=Path, help="also write a page that needs no network")
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
        "check", help="say what maintenance a table needs, and by which commands",
        description="Say what maintenance a table needs, whoever wrote it: small files, skew, old logs, "
        "missing statistics and more, each with the command that fixes it, what that reads, writes and "
        "saves. Nothing is written. The exit code is 0, 1 if there is a finding of a kind that --fail-on "
        "names, and 2 if the table cannot be read.")
    path = check.add_argument("path", metavar="PATH", help="the table's folder")
    check.add_argument(
        "--fail-on", nargs="+", default=[], metavar="KIND", action=_FailOn, path=path, kinds=FAIL_ON,
        help="kinds whose findings make the exit code 1, separated by commas or spaces: "
        + ", ".join(FAIL_ON))
    check.add_argument(
        "--files", choices=["none", "all"], help="none reads only the log, all lists the whole folder, too "
                                                 "(default: the folder, in a bucket its first files)")
    check.add_argument("--json", action="store_true", help="print JSON")
    check.add_argument("--html", metavar="FILE", type=Path, help="also write a page that needs no network")
    check.set_defaults(run=_check, last=None)


class _FailOn(argparse.Action):
    """Kinds of findings, in one word or in several; the last of several may be the path.

    An option that takes several words would take the path that comes after it, too.
    """

    def __init__(self, *args: Any, path: argparse.Action, kinds: Sequence[str], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.path, self.kinds = path, kinds

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: Any = None
    ) -> None:
        words = list(values)
        if len(words) > 1 and namespace.path is None and not self._are_kinds(words[-1]):
            namespace.last = words.pop()
            self.path.required = False
        for word in words:
            if not self._are_kinds(word):
                raise argparse.ArgumentError(self, f"{word!r} is not one of {', '.join(self.kinds)}")
        chosen = [kind for word in words for kind in word.split(",")]
        setattr(namespace, self.dest, [*getattr(namespace, self.dest), *chosen])

    def _are_kinds(self, word: str) -> bool:
        return all(kind in self.kinds for kind in word.split(","))


def _check(arguments: argparse.Namespace) -> int:
    from deltanb.notebook.views.checkup import listing
    from deltanb.observe.checkup import checkup

    check_ending(arguments.html, ".html")
    if arguments.path is not None and arguments.last is not None:
        raise InvalidArgument(f"one table at a time: {arguments.last} and {arguments.path} are two")
    path = arguments.last if arguments.path is None else arguments.path
    report = checkup(path, list_files={"none": False, "all": True}.get(arguments.files))
    if arguments.html is not None:
        report.save(arguments.html)
    print(redacted(report.to_json()) if arguments.json else safe(listing(report)))
    return int(report.fails(arguments.fail_on))


def _add_why(commands: Any) -> None:
    why = commands.add_parser(
        "why", help="explain why a job failed to commit, from its stack trace and the table",
        description="Explain why a job failed to commit, whoever ran it: which commit won, by which rule, "
        "whether rows met, and what would have let it pass; nothing is written. Any part of what is known "
        "will do. The exit code is 0 if the failure is explained, 3 if the answer is inferred or there is "
        "none, and 2 if the table cannot be read.")
    why.add_argument("path", metavar="PATH", help="the table's folder")
    why.add_argument("--error", metavar="FILE", help="the exception's text, as pasted; - reads the input")
    why.add_argument("--read-version", type=version, metavar="V", help="the version that the job read")
    why.add_argument("--started", metavar="T", help="when it began (ISO 8601; UTC without a zone)")
    why.add_argument("--where", dest="predicate", metavar="P", help="the condition of its DELETE or UPDATE")
    why.add_argument("--operation", metavar="O", help="what it did: MERGE, DELETE, APPEND, OVERWRITE, …")
    why.add_argument("--writer", metavar="W", help="who ran it, for how often it met the winner before")
    form = why.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--markdown", action="store_true", help="print Markdown, for a ticket")
    why.add_argument("--html", metavar="FILE", type=Path, help="also write a page that needs no network")
    why.set_defaults(run=_why)


def _why(arguments: argparse.Namespace) -> int:
    from deltanb.notebook.views.post_mortem import listing
    from deltanb.observe.post_mortem.post_mortem import post_mortem

    check_ending(arguments.html, ".html")
    error = None if arguments.error is None else _text_of(arguments.error)
    pm = post_mortem(arguments.path, error, arguments.read_version, arguments.started, arguments.predicate,
                     arguments.operation, arguments.writer)
    if arguments.html is not None:
        pm.save(arguments.html)
    print(redacted(pm.to_json()) if arguments.json
          else pm.to_markdown() if arguments.markdown else safe(listing(pm)))
    return pm.status


def _text_of(file: str) -> str:
    """The text of a file, whatever its encoding, or what is piped in."""
    data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    text = data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig", "replace")
    if not text.strip():
        raise InvalidArgument(f"--error {file}: there is no text in it")
    return text
