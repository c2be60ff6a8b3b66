"""Who waits for whom: the graph of a manager's locks, and the circle of a deadlock.

What lives here: the views of ``LockGraph`` and of ``Cycle``, as text, as tables, and as boxes and arrows.
What it does not know: positions (``drawing/lock_net``), looks (``drawing/lock_svg``). No clock is read: how
long someone has waited is in the values.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from deltanb.locks.core.modes import MODE_NAMES, label
from deltanb.locks.core.names import called, own_name
from deltanb.locks.core.refusals import advice, attached
from deltanb.notebook.drawing import html, lock_svg
from deltanb.notebook.drawing.lock_net import Arrow, Box, Net
from deltanb.notebook.views.model import Inline, Section, Table, View, code, muted, ok, warn
from deltanb.options import options
from deltanb.text import formatting as units

MAX_NAMED = 6  # transactions or locks named in a cell; a lock can be shared by thousands
MAX_RING = 12  # boxes of a circle on a line of text
MAX_BOXES = 30  # boxes of a circle in a picture
MAX_CALLED = 20  # characters of a transaction's name and number in a box
MAX_ATTACHED = 12  # characters of an attachment in a box
UNLOCKED = MODE_NAMES[0]


@dataclass(frozen=True)
class NetView(View):
    """A view with a picture of boxes and arrows; ``sentence`` says that picture in words."""

    net: Net = Net((), ())
    sentence: str = ""
    more: str = ""
    """What there is beside that which is drawn."""


def to_html(view: View, as_text: str) -> str:
    """The HTML form: the heading, the picture, the sections."""
    assert isinstance(view, NetView)
    drawn = lock_svg.draw(view.net, view.sentence, view.more) if view.net.boxes else ""
    return html.pictured(view, drawn, as_text)


def _svg(obj: Any) -> str:
    view = cycle(obj) if hasattr(obj, "victim") else graph(obj)
    return lock_svg.draw(view.net, view.sentence, view.more)


DRAWINGS = {"svg": _svg}


# -- the graph ---------------------------------------------------------------------------------


def graph(graph: Any) -> NetView:
    """The view of a :class:`~deltanb.locks.core.graph.LockGraph`."""
    mark: Inline = warn("✕ deadlock") if graph.cycle else ok("nobody waits" if not graph.num_waiting else
                                                             "no deadlock")
    counts = (f"{units.count(graph.num_locks, 'lock')} held  "
              f"{units.count(graph.num_waiting, 'transaction')} waiting")
    lines: list[Inline] = [counts]
    if graph.part != "all":
        lines.append(muted(_part(graph)))
    sections = [section for section in (_circle(graph), _waits(graph), _holds(graph)) if section is not None]
    words = f"Lock graph: {counts.replace('  ', ', ')}"
    if graph.cycle:
        words += f"; deadlock of transactions {_ids(graph.cycle)}"
    return NetView("Lock graph", "", (mark,), tuple(lines), tuple(sections), net=net_of(graph),
                   sentence=words, more=_beside(graph))


def _beside(graph: Any) -> str:
    """What is not drawn, counted."""
    locks = graph.num_locks - len(graph.locks) + len(_idle(graph))
    drawn = set(graph.transactions)
    waiting = graph.num_waiting - sum(wait.transaction in drawn for wait in graph.waits)
    parts = [units.count(locks, "more lock") + " held"] if locks else []
    parts += [units.count(waiting, "more transaction") + " waiting"] if waiting else []
    return f"not drawn: {', '.join(parts)}" if parts else ""


def _part(graph: Any) -> str:
    if graph.part == "waited for" and graph.num_waiting:
        return "drawn: the locks that somebody waits for, and who holds them"
    if graph.cycle:
        return "too many for a picture: the circle alone is drawn"
    return f"too many for a picture, and {'no circle among them' if graph.num_waiting else 'nobody waits'}"


def _circle(graph: Any) -> Section | None:
    if not graph.cycle:
        return None
    lock = {wait.transaction: wait.lock for wait in graph.waits}
    steps = [[str(txn), lock[txn]] for txn in graph.cycle if txn in lock]
    return Section("Deadlock", _ring([name for step in steps for name in step]))


def _ring(names: Sequence[str]) -> Inline:
    """A circle on a line: each waits for the lock after it, which is held by the next.

    >>> _ring(["1", "1:a", "2", "1:b"])
    '1 → 1:a → 2 → 1:b → 1'
    """
    few = list(names[:MAX_RING])
    if len(names) > MAX_RING:
        few.append(f"{units.number((len(names) - MAX_RING) // 2)} more transactions")
    return " → ".join([*few, names[0]]) if names else ""


def _waits(graph: Any) -> Section | None:
    if not graph.waits:
        return None
    hot = set(graph.cycle)
    few = graph.waits[:max(1, options.max_rows)]
    rows = tuple((_who(wait.transaction, wait.attachment), [code(wait.lock), f" {wait.mode}"],
                  _ids(wait.blockers), units.duration(wait.waited_ms)) for wait in few)
    marked = frozenset(at for at, wait in enumerate(few) if wait.transaction in hot)
    table = Table(("transaction", "waits for", "behind", "since"), rows, graph.num_waiting, "transaction",
                  marked=marked)
    return Section("Waits", "the longest first", table, is_open=True, text_rows=True)


def _holds(graph: Any) -> Section | None:
    if not graph.members:
        return None
    held: dict[int, list[str]] = {}
    for hold in graph.holds:
        held.setdefault(hold.transaction, []).append(f"{hold.lock} {hold.mode}")
    rows = tuple((_who(member.id, member.attachment), ", ".join(_few(held.get(member.id, []))) or "none",
                  units.duration(member.age_ms)) for member in graph.members)
    summary = "of what is drawn" if graph.part != "all" else units.count(len(rows), "transaction")
    table = Table(("transaction", "holds", "age"), rows, len(rows), "transaction", limit=len(rows))
    return Section("Holds", summary, table, text_rows=True)


def _few(items: Sequence[str]) -> list[str]:
    return [*items[:MAX_NAMED], *_more(len(items))]


def _more(total: int) -> Iterable[str]:
    return [f"{units.number(total - MAX_NAMED)} more"] if total > MAX_NAMED else []


def _ids(transactions: Sequence[int]) -> str:
    return ", ".join(_few([units.clean(str(txn)) for txn in transactions]))


def net_of(graph: Any) -> Net:
    """A graph as boxes and arrows."""
    drawn, hot = set(graph.transactions), set(graph.cycle)
    waits = [wait for wait in graph.waits if wait.transaction in drawn and _name(wait) in graph.locks]
    of = {wait.transaction: wait for wait in waits}
    following = dict(zip(graph.cycle, [*graph.cycle[1:], *graph.cycle[:1]], strict=True))
    way = {(_name(of[txn]), after) for txn, after in following.items() if txn in of}
    hot_names = {name for name, _ in way}
    idle = _idle(graph)
    boxes = [_txn(member.id, member.attachment, _wish(of.get(member.id)), member.id in hot)
             for member in graph.members]
    boxes += [Box(("lock", name), label(name), is_hot=name in hot_names) for name in graph.locks
              if name not in idle]
    held = {(_name(hold), hold.transaction): hold.mode for hold in graph.holds if _name(hold) not in idle}
    ahead = dict.fromkeys((_name(wait), other) for wait in waits for other in wait.blockers
                          if other in drawn and (_name(wait), other) not in held)
    arrows = [Arrow(("lock", name), ("txn", txn), "holds", mode, (name, txn) in way)
              for (name, txn), mode in held.items()]
    arrows += [Arrow(("txn", wait.transaction), ("lock", _name(wait)), "waits",
                     is_hot=wait.transaction in hot) for wait in waits]
    arrows += [Arrow(("lock", name), ("txn", txn), "ahead", "", (name, txn) in way) for name, txn in ahead]
    return Net(tuple(boxes), tuple(arrows))


def _idle(graph: Any) -> set[tuple[int, bytes]]:
    """If anybody waits: the locks without waiters that are held only with intentions. Whoever holds a part of
    a table holds one, so their arrows would cross all others and say nothing."""
    waited_for = {_name(wait) for wait in graph.waits}
    loud = {_name(hold) for hold in graph.holds if not hold.mode.startswith("intention")}
    return {name for name in graph.locks if waited_for and name not in waited_for | loud}


def _name(of: Any) -> tuple[int, bytes]:
    return of.index_id, of.key


def _wish(wait: Any) -> str:
    return "" if wait is None else f"wants {wait.mode}, {units.duration(wait.waited_ms)}"


def _txn(txn: int, attachment: Any, note: str, is_hot: bool = False, is_victim: bool = False) -> Box:
    more = units.fit(units.clean(_attached(txn, attachment)), MAX_ATTACHED)
    return Box(("txn", txn), f"{called(txn, MAX_CALLED)} {more}".rstrip(), note, is_hot, is_victim)


# -- a deadlock --------------------------------------------------------------------------------


def cycle(deadlock: Any) -> NetView:
    """The view of a :class:`~deltanb.locks.core.deadlock.Cycle`: the card of a ``DeadlockError``."""
    refused = warn(f"✕ {units.clean(called(deadlock.victim))} was refused")
    rows = tuple((_who(wait.transaction, wait.attachment), [code(wait.lock), f" {wait.mode}"],
                  _all_held(wait), units.duration(wait.waited_ms), units.duration(wait.age_ms))
                 for wait in deadlock.waits)
    columns = ("transaction", "waits for", "holds", "waiting", "age")
    marked = frozenset(at for at, wait in enumerate(deadlock.waits) if wait.transaction == deadlock.victim)
    table = Table(columns, rows, len(rows), "transaction", marked=marked)
    lines: list[Inline] = ["each waits for the next one, the last for the first"]
    if deadlock.idle is not None:
        lines = [f"only thread {deadlock.thread} works on {units.clean(called(deadlock.idle))}, "
                 "and it would wait for ever"]
    elif not deadlock.is_on_it:
        lines.append(f"{units.clean(called(deadlock.victim))} is not one of them: it was blocked behind them")
    sections = (
        Section("Circle", _ring(_steps(deadlock))),
        Section("Waits", units.count(len(rows), "transaction"), table, is_open=True, text_rows=True),
        Section("Way out", advice(deadlock)),
    )
    view = NetView("Deadlock", "", (refused,), tuple(lines), sections)
    return replace(view, net=circle_of(deadlock), sentence=_sentence(deadlock))


def sentence(view: View) -> str:
    """The circle in words, without times: the text beside its picture."""
    assert isinstance(view, NetView)
    return view.sentence


def _sentence(deadlock: Any) -> str:
    waits = [f"{called(wait.transaction)} {_attached(wait.transaction, wait.attachment)}".rstrip()
             + f" waits for {wait.lock} {wait.mode}" for wait in deadlock.waits[:MAX_BOXES]]
    return units.clean(f"Deadlock: {', '.join(waits)}")


def _steps(deadlock: Any) -> list[str]:
    steps = [name for wait in deadlock.waits for name in (str(wait.transaction), wait.lock)]
    return steps if deadlock.idle is None else [*steps, str(deadlock.idle), f"thread {deadlock.thread}"]


def circle_of(deadlock: Any) -> Net:
    """The circle of a deadlock as boxes and arrows."""
    waits = deadlock.waits[:MAX_BOXES // 2]
    is_whole = len(waits) == len(deadlock.waits)
    boxes = [_txn(wait.transaction, wait.attachment, _note(deadlock, wait), True,
                  wait.transaction == deadlock.victim) for wait in waits]
    boxes += [Box(("lock", name), label(name), is_hot=True) for name in dict.fromkeys(map(_name, waits))]
    arrows = [Arrow(("txn", wait.transaction), ("lock", _name(wait)), "waits", is_hot=True) for wait in waits]
    closes = waits[:1] if is_whole and deadlock.idle is None else ()
    for wait, after in zip(waits, [*waits[1:], *closes], strict=False):
        mode = _mode_of(after, _name(wait))
        arrows.append(Arrow(("lock", _name(wait)), ("txn", after.transaction), "holds" if mode else "ahead",
                            mode, True))
    if is_whole and deadlock.idle is not None:
        idle, thread = ("txn", deadlock.idle), ("thread", deadlock.thread)
        boxes += [_txn(deadlock.idle, None, "has no call", True),
                  Box(thread, f"thread {deadlock.thread}", "would wait for ever", True)]
        arrows += [Arrow(("lock", _name(waits[-1])), idle, "holds", is_hot=True),
                   Arrow(idle, thread, "waits", "needs", True),
                   Arrow(thread, ("txn", waits[0].transaction), "waits", "is in a call of", True)]
    return Net(tuple(boxes), tuple(arrows))


def _note(deadlock: Any, wait: Any) -> str:
    if wait.transaction == deadlock.victim:
        return f"✕ refused: {wait.mode}"
    return f"wants {wait.mode}, {units.duration(wait.waited_ms)}"


def _mode_of(wait: Any, name: tuple[int, bytes]) -> str:
    """The mode in which a transaction holds a lock of the circle; empty if it is only ahead of another."""
    if _name(wait) == name:
        return "" if wait.has == UNLOCKED else str(wait.has)
    return next((mode for index_id, key, mode in wait.holds if (index_id, key) == name), "")


def _who(txn: int, attachment: Any) -> Inline:
    return units.clean(f"{txn} {_attached(txn, attachment)}".rstrip())


def _attached(txn: int, attachment: Any) -> str:
    """What is attached to a transaction, in words; empty where that is its name, or nothing."""
    return "" if attachment is None or attachment == own_name(txn) else attached(attachment)


def _all_held(wait: Any) -> Inline:
    """The circle's locks that it holds, including the one it wants in another mode."""
    held = wait.holds
    if wait.has != UNLOCKED:
        held = ((wait.index_id, wait.key, wait.has), *held)
    few = [f"{label((index_id, key))} {mode}" for index_id, key, mode in held[:MAX_NAMED]]
    return ", ".join([*few, *_more(len(held))])
