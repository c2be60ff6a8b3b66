"""A picture for each isolation level: three pairs of writers, raced for real, and what explains the result.

What lives here: the pairs, how they are raced and put in order, and the SVG. ``python -m docs.isolation``
writes the pictures anew beside their page, and a test fails when they are out of date.
What it does not know: the rules. What is drawn is what the library does.

Each picture has a ground of its own, so that it can be read wherever it is shown, and follows the reader's
scheme.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import deltanb as dn
from deltanb.notebook.drawing import chart, colors
from deltanb.transaction.current import SERIALIZABLE, SNAPSHOT_ISOLATION, WRITE_SERIALIZABLE

FOLDER = Path(__file__).resolve().parent / "explanation"
LEVELS = (SERIALIZABLE, WRITE_SERIALIZABLE, SNAPSHOT_ISOLATION)
ROWS = {"month": [1, 1, 2, 2], "flight": [1, 2, 3, 4], "delay": [-5, 74, 0, 9]}

Writer = Callable[[dn.DeltaTable], Any]


def _plan(month: int) -> Writer:
    """Add an extra flight, unless there is one: what was looked at is read, and counts."""
    def plan(table: dn.DeltaTable) -> None:
        with table.transaction() as txn:
            if txn.count("flight = 9999") == 0:
                txn.append({"month": [month], "flight": [9999], "delay": [0]})
    return plan


PAIRS: dict[str, Mapping[str, Writer]] = {
    "Rows added where one reads": {
        "etl": lambda table: table.append({"month": [1], "flight": [5], "delay": [80]}),
        "cleaner": lambda table: table.delete("month = 1 AND delay > 60")},
    "Both look, both add": {"ann": _plan(1), "ben": _plan(2)},
    "Both change one file": {
        "ann": lambda table: table.update({"delay": "0"}, "month = 1 AND delay < 0"),
        "ben": lambda table: table.delete("month = 1 AND delay > 60")},
}
"""What both writers do, the one who commits first before the other."""


@dataclass(frozen=True)
class Ending:
    """How a pair ended: the later writer's version, or the rule that it broke; and what explains the rows."""

    writers: tuple[str, ...]
    version: int | None
    rule: str | None
    explained: str


def endings(level: str) -> dict[str, Ending]:
    """Each pair under a level."""
    with tempfile.TemporaryDirectory() as folder, dn.teaching(seed=1), dn.set_options(durability="none"):
        return {title: _ending(Path(folder) / str(number), level, pair)
                for number, (title, pair) in enumerate(PAIRS.items())}


def _ending(folder: Path, level: str, pair: Mapping[str, Writer]) -> Ending:
    def raced(name: str, writers: Mapping[str, Writer], order: str | None) -> tuple[Any, list[Any]]:
        table = dn.create(folder / name, ROWS, "month", {"delta.isolationLevel": level})
        race = dn.race(table, writers, order)
        return race.outcomes, sorted(map(repr, table.to_arrow().to_pylist()))

    first, later = pair
    outcomes, rows = raced("race", pair, None)
    if isinstance(outcomes[later], Exception):
        return Ending(tuple(pair), None, outcomes[later].conflict.rule, f"{later} tries again, and sees it")
    if rows == raced("log", pair, "serial")[1]:
        explained = "the order of the log explains it"
    elif rows == raced("other", {later: pair[later], first: pair[first]}, "serial")[1]:
        explained = f"explained by {later} before {first}"
    else:
        explained = "no order explains it"
    return Ending(tuple(pair), outcomes[later], None, explained)


# -- the drawing ---------------------------------------------------------------------------------------------

WIDTH, HEIGHT, PANEL = 780, 186, 260
READ, FIRST, SECOND = 78, 142, 206
"""Where of a panel versions 0, 1 and 2 are."""
LANES = (78, 114)
LETTERS = 13


def svg(level: str) -> str:
    """The picture of a level."""
    ended = endings(level)
    words = "; ".join(f"{title}: {_in_words(ending)}" for title, ending in ended.items())
    panels = [chart.element("g", _panel(title, ending), transform=f"translate({number * PANEL})")
              for number, (title, ending) in enumerate(ended.items())]
    return chart.picture(WIDTH, HEIGHT, f"{level}. {words}", panels) + "\n"


def _panel(title: str, ending: Ending) -> str:
    first, later = LANES
    parts = [chart.label(title, 14, 26, font_weight=600, font_size=LETTERS)]
    parts += [chart.label(f"v{version}", x, 52, muted=True, text_anchor="middle", font_size=LETTERS)
              for version, x in enumerate((READ, FIRST, SECOND))]
    parts += [chart.line(f"M{x} 58V126", stroke_dasharray="2 3") for x in (READ, FIRST, SECOND)]
    parts += [chart.label(name, 14, y + 4, font_size=LETTERS)
              for y, name in zip(LANES, ending.writers, strict=True)]
    parts.append(_lane(first, FIRST, "append"))
    if ending.rule is None:
        parts.append(_lane(later, SECOND, "append"))
        words = f"✓ both commit, {ending.writers[1]} as v{ending.version}"
        parts.append(chart.label(words, 14, 150, font_size=LETTERS))
    else:
        parts.append(chart.element("path", d=f"M{READ} {later}H{FIRST - 8}", cls="w", stroke=colors.ALARM,
                                   stroke_width=2, stroke_dasharray="5 4"))
        parts.append(_alarm("✕", FIRST, later + 5, text_anchor="middle"))
        parts.append(_alarm(f"✕ {ending.writers[1]} fails: {ending.rule}", 14, 150))
    if ending.explained.startswith("no "):
        parts.append(_alarm(ending.explained, 14, 170))
    else:
        parts.append(chart.label(ending.explained, 14, 170, muted=True, font_size=LETTERS))
    return "".join(parts)


def _lane(y: int, end: int, kind: str) -> str:
    color = colors.color(kind)
    return (chart.element("path", d=f"M{READ} {y}H{end}", stroke=color, stroke_width=2)
            + chart.element("circle", cx=READ, cy=y, r=3, fill=color)
            + chart.element("circle", cx=end, cy=y, r=6, fill=color))


def _alarm(text: str, x: int, y: int, **more: Any) -> str:
    return chart.element(
        "text", escape(text), x=x, y=y, cls="x", fill=colors.ALARM, font_size=LETTERS, **more)


def _in_words(ending: Ending) -> str:
    how = f"{ending.writers[1]} fails by the rule {ending.rule}" if ending.rule else "both commit"
    return f"{how}, {ending.explained}"


def place(level: str) -> Path:
    """Where the picture of a level is."""
    return FOLDER / f"isolation-{level.lower()}.svg"


def main() -> None:
    """Write all pictures."""
    for level in LEVELS:
        place(level).write_text(svg(level), "utf-8")
        print(place(level).name)


if __name__ == "__main__":
    main()
