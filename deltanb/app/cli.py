"""The command line: ``deltanb lab``, ``history PATH``, ``timeline PATH``, ``verify PATH``, ``serve``, ….

What lives here: arguments and exit codes. 0 is success; 1 is a catalog or a table that is not in order;
2 is an error that one line explains, on the error stream; 3 is a table with which something may be wrong.
What it does not know: the log, the views, the tutorials (``lab``). It prints what a table says of itself.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from deltanb._version import __version__
from deltanb.errors import DeltaError, InvalidArgument
from deltanb.text.safe_text import redacted, safe

HISTORY_LIMIT = 20  # commits; a screenful
HELP = ("-h", "--help")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code.

    Args:
        arguments: as typed after ``deltanb``; by default those of the process.

    >>> main(["history", "no/such/table"])
    2
    """
    leading, rest = _split(list(sys.argv[1:] if arguments is None else arguments))
    known = _parser().parse_args(leading)
    try:
        if known.command == "lab":
            from deltanb.app import lab

            return lab.run(known.folder, rest)
        command: Callable[[argparse.Namespace], int | None] = known.run
        return command(known) or 0
    except (DeltaError, OSError) as error:
        print(f"deltanb: {safe(' '.join(str(error).split()))}", file=sys.stderr)
        return 2


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    """What is ours of a command line, and what of ``lab`` goes on to JupyterLab: its first option and
    all that follows, since only JupyterLab knows which of its options take a value."""
    if words[:1] != ["lab"]:
        return words, []
    at = next((i for i, text in enumerate(words) if text.startswith("-") and text not in HELP), len(words))
    return words[:at], words[at:]


def _parser() -> argparse.ArgumentParser:
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

    history = commands.add_parser("history", help="list the commits of a table, newest first")
    history.add_argument("path", metavar="PATH", help="the table's folder")
    history.add_argument(
        "--limit", type=_positive, default=HISTORY_LIMIT, help="how many (default %(default)s)"
    )
    history.set_defaults(run=_history)

    _add_timeline(commands)
    describe = commands.add_parser("describe", help="show what a table is at its newest version")
    describe.add_argument("path", metavar="PATH", help="the table's folder")
    describe.set_defaults(run=_describe)
    _add_verify(commands)
    _add_serve(commands)
    _add_catalog(commands)
    return parser


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


def _add_verify(commands: Any) -> None:
    verify = commands.add_parser(
        "verify", help="go through a table's log and say what is wrong with it",
        description="Go through the log of a table, whoever wrote it, and say what is wrong; nothing is "
        "written. The exit code is 0 where the table is sound, 1 where something is proved wrong, 3 where "
        "something is only possible, and 2 where the table cannot be looked at.")
    verify.add_argument("path", metavar="PATH", help="the table's folder")
    verify.add_argument("--from", dest="start", type=_version, metavar="VERSION", help="default: the first")
    verify.add_argument("--to", dest="end", type=_version, metavar="VERSION", help="default: the newest")
    verify.add_argument(
        "--files", choices=["none", "sample", "all"], default="sample",
        help="data files to open: none looks at the log alone, sample lists the folder, too, and reads some "
        "footers, all reads every data file of the last version (default %(default)s)")
    verify.add_argument("--json", action="store_true", help="print JSON, for programs")
    verify.add_argument("--html", metavar="FILE", type=Path, help="write a page that needs no network, too")
    verify.set_defaults(run=_verify)


def _add_serve(commands: Any) -> None:
    from deltanb.catalog.limits import Limits

    serve = commands.add_parser(
        "serve", help="serve a catalog of tables over HTTP (Iceberg REST)",
        description="Serve a catalog over HTTP until SIGINT or SIGTERM. Prints the URL it serves on; every "
        "request is a line of JSON on the error stream.")
    serve.add_argument("--catalog", required=True, metavar="URL",
                       help="the database: sqlite:///FILE or postgresql://…")
    serve.add_argument("--warehouse", required=True, metavar="DIR", help="the folder below which tables lie")
    serve.add_argument("--host", default="127.0.0.1", help="where to listen (default %(default)s)")
    serve.add_argument("--port", type=_port, default=8181, help="default %(default)s; 0 takes any")
    access = serve.add_mutually_exclusive_group(required=True)
    access.add_argument("--token-file", metavar="FILE", help="who may do what (JSON)")
    access.add_argument("--no-auth", action="store_true", help="let everyone in; on loopback only")
    for name, what in (("tables", "tables of one commit"), ("updates", "updates of a table in one commit"),
                       ("seconds", "that a commit may take")):
        serve.add_argument(f"--max-{name}", type=_positive, default=getattr(Limits, name), metavar="N",
                           help=f"{what} (default %(default)s)")
    serve.set_defaults(run=_serve)


def _add_catalog(commands: Any) -> None:
    catalog = commands.add_parser(
        "catalog", help="look after a catalog",
        description="check looks at every invariant of a catalog and changes nothing; its exit code is 1 "
        "where something is wrong. sweep publishes what crashes have left unpublished and deletes files "
        "that are nobody's.")
    catalog.add_argument("what", choices=["check", "sweep"])
    catalog.add_argument(
        "--catalog", required=True, metavar="URL", help="sqlite:///FILE or postgresql://...")
    catalog.add_argument("--name", default="default", help="of the catalog in the database")
    catalog.add_argument(
        "--grace", type=_positive, default=24, metavar="HOURS",
        help="how long a sweep leaves alone what may be unfinished (default %(default)s)")
    catalog.set_defaults(run=_catalog)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def _version(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a version, a whole number from 0")
    return int(text)


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port, 0 to 65535")
    return int(text)


def _serve(arguments: argparse.Namespace) -> None:
    from deltanb.catalog.limits import Limits
    from deltanb.catalog.rest.server.logs import log_to
    from deltanb.catalog.rest.server.serving import run, service_of

    limits = Limits(arguments.max_tables, arguments.max_updates, arguments.max_seconds)
    service = service_of(
        arguments.catalog, arguments.warehouse, arguments.host, arguments.token_file, limits)
    log_to(sys.stderr)
    run(service, arguments.host, arguments.port,
        lambda url: print(f"deltanb: the catalog is served at {url}", flush=True))


def _history(arguments: argparse.Namespace) -> None:
    from deltanb.table.table import DeltaTable

    print(DeltaTable.for_path(arguments.path).history(limit=arguments.limit))


def _timeline(arguments: argparse.Namespace) -> None:
    from deltanb.table.table import DeltaTable

    start, end = (_moment(text) for text in (arguments.start, arguments.end))
    timeline = DeltaTable.for_path(arguments.path).timeline(start, end)
    files = {".html": arguments.html, ".svg": arguments.svg}
    for ending, file in files.items():
        _check_ending(file, ending)
    for file in filter(None, files.values()):
        timeline.save(file)
        print(safe(f"deltanb: the timeline is in {file}"))
    if not any(files.values()):
        print(timeline)


def _check_ending(file: Path | None, ending: str) -> None:
    if file is not None and file.suffix.lower() != ending:
        raise InvalidArgument(f"--{ending[1:]} {file}: the name of the file must end in {ending}")


def _moment(text: str | None) -> int | str | None:
    """A version where digits alone are typed, else a time."""
    return int(text) if text is not None and text.isdecimal() else text


def _describe(arguments: argparse.Namespace) -> None:
    from deltanb.table.table import DeltaTable

    print(DeltaTable.for_path(arguments.path))


def _verify(arguments: argparse.Namespace) -> int:
    from deltanb.notebook.views.verification import listing
    from deltanb.observe.verify import verify

    _check_ending(arguments.html, ".html")
    report = verify(arguments.path, arguments.start, arguments.end, arguments.files)
    if arguments.html is not None:
        report.save(arguments.html)
    print(redacted(report.to_json()) if arguments.json else safe(listing(report)))
    return report.status


def _catalog(arguments: argparse.Namespace) -> int:
    from deltanb.catalog.store.store import CatalogStore
    from deltanb.catalog.store.upkeep import check, sweep

    kind, _, file = arguments.catalog.partition("?")[0].partition(":///")
    if kind == "sqlite" and not Path(file).exists():  # opening it would make an empty one
        raise InvalidArgument(f"there is no catalog at {file}; nothing was looked at")
    with CatalogStore(arguments.catalog, arguments.name) as store:
        if arguments.what == "sweep":
            print(safe(str(sweep(store, arguments.grace * 3_600_000))))
            return 0
        findings = check(store)
    print(safe("\n".join(map(str, findings)) or "nothing is wrong, and there is nothing to sweep"))
    return int(any(finding.is_fault for finding in findings))


if __name__ == "__main__":
    sys.exit(main())
