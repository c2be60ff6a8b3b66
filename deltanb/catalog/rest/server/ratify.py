"""Ratification over HTTP: Delta and Iceberg tables move together, for clients that are this library.

What lives here: from the request to the verdict. Delta commits come staged by the client; for Iceberg tables
come requirements and updates, whose metadata files are written here. A request carries an attempt's id, which
is kept in the transaction that it lands in: who asks for the outcome has all unanswered attempts given up
first, and one that was given up cannot land, however late it arrives, and at whichever server.
What it does not know: how tables are stored, and HTTP.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from deltanb.catalog.iceberg.commit import Change, Committed, Committer, Prepared, moved_again
from deltanb.catalog.iceberg.metadata.fields import refuse
from deltanb.catalog.rest.forms import Ratification
from deltanb.catalog.rest.server.messages import Reply, Request
from deltanb.catalog.rest.server.refusals import refused
from deltanb.catalog.store.ledgers import Answer
from deltanb.catalog.store.names import TableName
from deltanb.catalog.store.ratification import Asserted, Ratified, Refused
from deltanb.catalog.store.store import Replayed
from deltanb.errors import CommitFailed, DeltaError, IdempotencyKeyReused
from deltanb.options import options

__all__ = ["outcome", "ratifiers", "ratify"]

MAX_ATTEMPTS = 100  # of one transaction: a client makes some three
RATIFYING, GIVEN_UP = "ratifying", "given up"


def ratifiers(request: Request) -> None:
    """The sender may write in the namespaces of the tables that move, and read in those that are asserted.

    Limits, and what is wrong in itself, are checked before anything is looked up.
    """
    asked: Ratification = request.body
    _check(asked, request.service.tables.committer)
    names = [each.name for each in asked.commits] + [each.name for _, each in asked.changes]
    request.allow("write", *(name.namespace for name in names))
    request.allow("read", *(each.name.namespace for each in asked.assertions))


def ratify(request: Request) -> Reply:
    """Move many tables, all or none."""
    asked: Ratification = request.body
    committer = request.service.tables.committer
    request.service.forget_answers()
    if asked.changes and (landed := committer.store.outcome(asked.txn_id)):
        return _ratified(request, landed.seq, ())
    try:
        return _landed(request, asked, committer)
    except DeltaError:
        # Of the same request, come twice: the other one was first, and left nothing to require.
        landed = committer.store.outcome(asked.txn_id) if asked.changes else None
        if landed is None:
            raise
        return _ratified(request, landed.seq, ())


def _elsewhere(verdict: Refused, names: Sequence[TableName]) -> Reply:
    """The answer to a request whose tables are not where it expects them."""
    return refused(
        409, "CommitFailedException", f"others changed {', '.join(map(str, names))} meanwhile; nothing was "
        "changed", latest=dict(verdict.latest))


def _lost(asked: Ratification, prepared: Prepared, verdict: Refused) -> list[TableName]:
    """The names of the tables that a verdict is about."""
    ids = {each.table_id: each.name for each in asked.commits}
    ids |= {each.table_id: each.name for each in asked.assertions}
    ids |= {str(member.after.table_id): member.change.name for member in prepared.members}
    return [ids[table_id] for table_id in verdict.latest if table_id in ids]


def _check(asked: Ratification, committer: Committer) -> None:
    most = committer.limits.tables
    tables = len(asked.commits) + len(asked.changes) + len(asked.assertions)
    if tables > most:
        refuse("proposals", f"and assertions name {tables} tables, and a commit may have {most}")
    if asked.changes:
        committer.check_request(_changes(asked))


def _changes(asked: Ratification) -> list[Change]:
    return [Change(each.name, each.requirements, each.updates, at) for at, each in asked.changes]


def _landed(request: Request, asked: Ratification, committer: Committer) -> Reply:
    """Who lost with Iceberg tables alone begins again; a Delta table's next version is its client's to make.
    """
    principal = request.principal.name or asked.principal
    answer = _attempt(request, asked.attempt, RATIFYING)
    prepared, why = Prepared(()), ""
    others = {each.table_id for each in asked.commits} | {each.table_id for each in asked.assertions}
    with committer.limits.began() as deadline:
        while True:
            if asked.changes:
                prepared = committer.prepare(_changes(asked), prepared)
            elsewhere = _replaced(asked, prepared)
            if elsewhere:
                committer.discard(prepared.written)
                return _elsewhere(Refused(dict.fromkeys(elsewhere)), list(elsewhere.values()))
            if not deadline.left:
                committer.discard(prepared.written)
                raise deadline.over(why)
            verdict = committer.land(
                prepared, asked.txn_id, principal, lambda done: answer, asked.summary, asked.commits,
                [*asked.assertions, *_unchanged(asked, prepared)])
            if isinstance(verdict, Committed):
                places = [str(table.metadata_location) for table in verdict.tables]
                return _ratified(request, verdict.seq, places)
            if isinstance(verdict, Replayed):
                return _again(request, asked, verdict)
            if not asked.changes or others & set(verdict.latest):
                committer.discard(prepared.written)
                return _elsewhere(verdict, _lost(asked, prepared, verdict))
            why = moved_again(_lost(asked, prepared, verdict))


def _replaced(asked: Ratification, prepared: Prepared) -> dict[str, TableName]:
    """Tables, by the ids under whose names another table is by now."""
    return {change.table_id: change.name  # type: ignore[misc]
            for (_, change), member in zip(asked.changes, prepared.members, strict=True)
            if change.table_id not in (None, member.after.table_id)}


def _unchanged(asked: Ratification, prepared: Prepared) -> Sequence[Asserted]:
    """Tables that nothing is required of and that stay as they are: with others, they have to stand."""
    if not asked.commits and not prepared.proposals:
        return []
    return [Asserted(str(member.after.table_id), member.change.name, str(member.after.metadata_location))
            for member in prepared.members if member.step is None]


def _again(request: Request, asked: Ratification, before: Replayed) -> Reply:
    """The answer to an attempt that was here before."""
    landed = request.service.tables.store.outcome(asked.txn_id)
    if landed is None:
        raise CommitFailed("this attempt has ended; nothing was changed", failed_requirements=[])
    return _ratified(request, landed.seq, ())


def _attempt(request: Request, attempt: str, what: str) -> Answer:
    """The stored answer of an attempt, which outlives any request on its way."""
    return _answer(request, _key(request, attempt), what)


def _key(request: Request, attempt: str) -> str:
    return f"{request.principal.name or ''}/ratify/{attempt}"


def _answer(request: Request, key: str, what: str) -> Answer:
    return Answer(key, what, 200, "", options.clock() + request.service.settings.key_lifetime)


def give_up(request: Request, keys: Sequence[str]) -> None:
    """Keep requests from landing that come late: what is kept under their keys is another request's."""
    for key in keys:
        with suppress(IdempotencyKeyReused):  # it has landed
            request.service.tables.store.answers.keep(_answer(request, key, GIVEN_UP))


def _ratified(request: Request, seq: int | None, places: Sequence[str]) -> Reply:
    return request.answered({"seq": seq, "metadata-locations": places})


def outcome(request: Request) -> Reply:
    """Whether a transaction has landed; the attempts at it that are named can do so no more."""
    body = request.body
    attempts = body.get("attempts", [])
    if len(attempts) > MAX_ATTEMPTS:
        refuse("attempts", f"are {len(attempts)}, and a transaction has at most {MAX_ATTEMPTS}")
    store = request.service.tables.store
    give_up(request, [_key(request, attempt) for attempt in attempts])
    landed: Ratified | None = store.outcome(body["txn-id"])
    return request.answered(None if landed is None else landed.seq)
