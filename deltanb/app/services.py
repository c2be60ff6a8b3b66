"""The commands on a catalog: ``deltanb serve``, ``deltanb catalog check`` and ``deltanb catalog sweep``.

What lives here: their arguments and exit codes.
What it does not know: the catalog's tables, the server's routes.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from deltanb.app.arguments import port, positive
from deltanb.errors import InvalidArgument
from deltanb.text.safe_text import safe


def add_to(commands: Any) -> None:
    """Add the commands to the command line."""
    _add_serve(commands)
    _add_catalog(commands)


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
    serve.add_argument("--port", type=port, default=8181, help="default %(default)s; 0 takes any")
    access = serve.add_mutually_exclusive_group(required=True)
    access.add_argument("--token-file", metavar="FILE", help="who may do what (JSON)")
    access.add_argument("--no-auth", action="store_true", help="let everyone in; on loopback only")
    for name, what in (("tables", "tables of one commit"), ("updates", "updates of a table in one commit"),
                       ("seconds", "that a commit may take")):
        serve.add_argument(f"--max-{name}", type=positive, default=getattr(Limits, name), metavar="N",
                           help=f"{what} (default %(default)s)")
    serve.set_defaults(run=_serve)


def _add_catalog(commands: Any) -> None:
    catalog = commands.add_parser(
        "catalog", help="look after a catalog",
        description="check looks at every invariant of a catalog and changes nothing; its exit code is 1 "
        "where something is wrong. sweep publishes what crashes have left unpublished and deletes files that "
        "belong to nothing.")
    catalog.add_argument("what", choices=["check", "sweep"])
    catalog.add_argument(
        "--catalog", required=True, metavar="URL", help="sqlite:///FILE or postgresql://...")
    catalog.add_argument("--name", default="default", help="of the catalog in the database")
    catalog.add_argument(
        "--grace", type=positive, default=24, metavar="HOURS",
        help="how long a sweep leaves alone what may be unfinished (default %(default)s)")
    catalog.set_defaults(run=_catalog)


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


def _catalog(arguments: argparse.Namespace) -> int:
    from deltanb.catalog.store.store import CatalogStore
    from deltanb.catalog.store.upkeep import check, sweep

    kind, _, file = arguments.catalog.partition("?")[0].partition(":///")
    if kind == "sqlite" and not Path(file).exists():  # opening it would make an empty one
        raise InvalidArgument(f"there is no catalog at {file}; nothing was checked")
    with CatalogStore(arguments.catalog, arguments.name) as store:
        if arguments.what == "sweep":
            print(safe(str(sweep(store, arguments.grace * 3_600_000))))
            return 0
        findings = check(store)
    print(safe("\n".join(map(str, findings)) or "nothing is wrong, and there is nothing to sweep"))
    return int(any(finding.is_fault for finding in findings))
