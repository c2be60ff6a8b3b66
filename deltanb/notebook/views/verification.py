"""Whether a table is sound: the verdict, what was found by kind, cycles of commits, and what no log can tell.

What lives here: the view of ``Verification``, and all of it as plain lines for the command line.
What it does not know: what is looked at, and what any kind means (``observe/verify``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from deltanb.notebook.drawing import html, text
from deltanb.notebook.drawing.timeline_scene import Scene
from deltanb.notebook.views.model import Inline, Section, Span, Table, View, code, muted, ok, present, warn
from deltanb.options import options
from deltanb.text import formatting as units

FILES = {"none": "no data file was opened", "sample": "a sample of the data files was opened",
         "all": "all data files were opened"}
DEPENDENCIES = "ww: both removed a file  wr: removed what the other added  rw: did not see the other"
SIGNS = {"proved": "✗", "possible": "?"}
MAX_VERSIONS = 4  # of a row
MAX_UNFOLDED = 10  # findings or files that unfold from a row: the rows matter more


@dataclass(frozen=True)
class VerificationView(View):
    """A view with the scene of the first cycle, if there is one to draw."""

    scene: Scene | None = None


def to_html(view: View, as_text: str) -> str:
    """The HTML form: the heading, the cycle on its timeline, the tables."""
    assert isinstance(view, VerificationView)
    if view.scene is None:
        return html.render(view, as_text)
    from deltanb.notebook.drawing.timeline_html import SHEET, within

    return html.pictured(view, within(view.scene), as_text, [SHEET])


def view(verification: Any) -> View:
    """The view of a :class:`~deltanb.observe.verify.report.Verification`."""
    first, last = verification.versions
    span = f"v{first}" if first == last else f"v{first} to v{last}"
    marks = (*_verdict(verification), span, units.count(verification.num_commits, "commit"))
    return VerificationView(
        "Verification", verification.table, marks, (muted(FILES[verification.files]),),
        present(*(make(verification) for make in (_findings, _cycles, blind_spots))),
        scene=verification.drawn.scene if verification.drawn is not None else None)


def _verdict(verification: Any) -> list[Inline]:
    if verification.is_sound:
        return [ok("✓ sound")]
    marks: list[Inline] = []
    proved = len(verification.proved)
    possible = len(verification.findings) - proved
    if proved:
        marks.append(warn(f"✗ {units.number(proved)} proved"))
    if possible:
        marks.append(f"? {units.number(possible)} possible")
    if verification.cycles:
        marks.append(_tone(verification.cycles)(units.count(len(verification.cycles), "cycle")))
    if verification.omitted:
        marks.append(f"{units.number(sum(n for _, n in verification.omitted))} more not listed")
    return marks


def _tone(several: Iterable[Any]) -> Any:
    return warn if any(one.certainty == "proved" for one in several) else str


def listing(verification: Any) -> str:
    """Every finding that is listed, every cycle and every blind spot in full, as lines of any length."""
    shown = view(verification)
    lines = [text.render(View(shown.kind, shown.name, shown.marks, shown.lines))]
    for group in _groups(verification):
        lines += ["", f"{SIGNS[group[0].certainty]} {group[0].kind}  {group[0].certainty}"]
        lines += [f"  {versions_of(finding.versions)}  {finding.evidence}" for finding in group]
        lines += [f"  to do: {remedy}" for remedy in dict.fromkeys(finding.remedy for finding in group)]
    for cycle in _proved_first(verification.cycles):
        lines += ["", f"{SIGNS[cycle.certainty]} {cycle.kind}  {cycle.certainty}  {path_of(cycle.edges)}",
                  f"  {cycle.evidence}", f"  the rule {cycle.rule!r} ends it at {cycle.isolation}"]
    if verification.omitted:
        lines += ["", f"not listed: {_omitted(verification)}"]
    lines += ["", "Blind spots"] if verification.blind_spots else []
    lines += [f"  {spot.kind}  {versions_of(spot.versions)}  {spot.evidence}"
              for spot in verification.blind_spots]
    return "\n".join(lines)


def _proved_first(several: Iterable[Any]) -> list[Any]:
    return sorted(several, key=lambda one: one.certainty != "proved")


def _omitted(verification: Any) -> str:
    return ", ".join(f"{units.number(n)} {kind}" for kind, n in verification.omitted)


# -- findings ---------------------------------------------------------------------------------------------


def _findings(verification: Any) -> Section | None:
    groups = _groups(verification)
    if not groups:
        return None
    shown = groups[: options.max_rows]
    table = Table(
        ("kind", "certainty", "versions", "what to do", "evidence"), tuple(map(_finding, shown)), len(groups),
        "kind", ("kind", "versions", "evidence"), ("kind", "versions"), unfolded=tuple(map(_unfolded, shown)))
    omitted = f"; not listed: {_omitted(verification)}" if verification.omitted else ""
    summary = muted(f"by kind, proved first{omitted}")
    return Section("Findings", summary, table, is_open=True, text_rows=True)


def _groups(verification: Any) -> list[list[Any]]:
    """The findings of each kind and certainty, proved ones first."""
    groups: dict[tuple[str, str], list[Any]] = {}
    for finding in _proved_first(verification.findings):
        groups.setdefault((finding.kind, finding.certainty), []).append(finding)
    return list(groups.values())


def _finding(group: Sequence[Any]) -> tuple[Inline, ...]:
    """All findings of one kind as a row: the first one, and how many more there are."""
    first, more = group[0], len(group) - 1
    versions = sorted({version for finding in group for version in finding.versions})
    evidence = f"{first.evidence}; and {units.number(more)} more" if more else first.evidence
    return (*_signed(first), versions_of(versions), first.remedy, evidence)


def _signed(one: Any) -> tuple[Inline, Inline]:
    """The kind behind a sign for its certainty, and the certainty."""
    tone = warn if one.certainty == "proved" else muted
    return [tone(SIGNS[one.certainty]), Span(f" {one.kind}", "fixed")], tone(one.certainty)


def _unfolded(group: Sequence[Any]) -> Table:
    if len(group) > 1:
        rows = tuple((versions_of(finding.versions), finding.evidence) for finding in group[:MAX_UNFOLDED])
        return Table(("versions", "evidence"), rows, len(group), "finding", limit=MAX_UNFOLDED)
    paths = group[0].paths if len(group[0].paths) > 1 else ()
    return Table(("file",), tuple((code(path),) for path in paths), len(paths), "file", limit=MAX_UNFOLDED)


def versions_of(versions: Sequence[int]) -> Inline:
    """Versions as a list that is cut after the first ones.

    >>> versions_of((2, 3)), versions_of(range(9)), versions_of(())
    ('v2, v3', 'v0, v1, v2, v3 and 5 more', '–')
    """
    names = ", ".join(f"v{version}" for version in versions[:MAX_VERSIONS])
    more = len(versions) - MAX_VERSIONS
    return (f"{names} and {units.number(more)} more" if more > 0 else names) or "–"


# -- cycles and blind spots -------------------------------------------------------------------------------


def _cycles(verification: Any) -> Section | None:
    cycles = verification.cycles
    if not cycles:
        return None
    rows = tuple((*_signed(cycle), Span(path_of(cycle.edges), "fixed"), f"{cycle.rule} at {cycle.isolation}",
                  cycle.evidence) for cycle in cycles[: options.max_rows])
    columns = ("kind", "certainty", "commits", "the rule that ends it", "evidence")
    table = Table(columns, rows, len(cycles), "cycle")
    first = cycles[0]
    more = f" and {units.number(len(cycles) - 1)} more" if len(cycles) > 1 else ""
    summary = [_tone(cycles[:1])(first.kind), f" {path_of(first.edges)}{more}  ", muted(DEPENDENCIES)]
    return Section("Cycles", summary, table, is_open=True)


def path_of(edges: Sequence[tuple[int, int, str]]) -> str:
    """The edges of a cycle as one path.

    >>> path_of(((3, 2, "rw"), (2, 3, "ww")))
    'v3 →rw v2 →ww v3'
    """
    ends = chain([(edges[0][0], "")], ((to, f" →{kind} ") for _, to, kind in edges)) if edges else ()
    return "".join(f"{arrow}v{version}" for version, arrow in ends)


def blind_spots(report: Any) -> Section | None:
    """The blind spots of a verification or a checkup; None where it has none."""
    spots = report.blind_spots
    if not spots:
        return None
    rows = tuple((code(spot.kind), versions_of(spot.versions), code(spot.missing) if spot.missing else "–",
                  spot.evidence) for spot in spots[: options.max_rows])
    table = Table(("kind", "versions", "missing", "what follows"), rows, len(spots), "blind spot",
                  ("kind", "versions", "what follows"), ("kind", "versions"))
    return Section("Blind spots", muted(", ".join(spot.kind for spot in spots)), table, text_rows=True)
