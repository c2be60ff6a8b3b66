"""The reference of table properties, made from :data:`deltanb.schema.properties.PROPERTIES`.

What lives here: the form of the page.
What it does not know: any property.
"""

from __future__ import annotations

from deltanb.schema.properties import DAY_MS, OTHERS, PROPERTIES, values_of
from docs.reference.rst import code, page

INTRODUCTION = """
Properties belong to a table and are kept in its log, for all writers. Set them when you create it, or later:

>>> import deltanb as dn
>>> table = dn.create("ducks", {"name": ["Donald"]}, properties={"delta.enableChangeDataFeed": True})
>>> table.set_properties({"delta.logRetentionDuration": "interval 60 days"}).version
1

Names are compared without case. A property that begins with ``delta.`` and is none of these is kept, and
:class:`~deltanb.errors.UnknownPropertyWarning` says that it changes nothing; other names are yours.
"""


def pages() -> dict[str, str]:
    """The one page."""
    parts = []
    for name, each in PROPERTIES.items():
        parts.append("\n".join([
            f".. confval:: {name}", f"   :type: {values_of(name)}",
            f"   :default: {_default(each.default)}", "", f"   {each.meaning}"]))
    others = ", ".join(code(name + ("…" if name.endswith(".") else "")) for name in OTHERS)
    return {"table-properties.rst": page(
        "Table properties", INTRODUCTION, *parts,
        f"Kept without a warning, since other writers act on them: names that begin with {others}.")}


def _default(value: object) -> str:
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return code(str(value).lower())
    if isinstance(value, int) and value and value % DAY_MS == 0:
        return code(f"interval {value // DAY_MS} day{'s' if value > DAY_MS else ''}")
    return code(value)
