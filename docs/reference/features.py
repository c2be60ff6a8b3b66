"""The reference of table features, made from :data:`deltanb.schema.features.FEATURES`.

What lives here: the form of the page.
What it does not know: any feature.
"""

from __future__ import annotations

from deltanb.schema.features import FEATURES, Feature
from docs.reference.rst import code, page, table

INTRODUCTION = """
The protocol of a table names the features that readers and writers have to know. A table with a feature that
is not supported is refused by name (:doc:`UnsupportedProtocol <errors/unsupported-protocol>`), before
anything is read or written. ``table.add_feature(…)`` adds one, ``table.drop_feature(…)`` removes one; most
are added by the property or the column that needs them.

* **Kind**: *readers and writers* have to know the feature, or *writers* alone.
* **Written**: *while inactive* means that the table can be written as long as the feature is not switched on.
* **Added by itself**: metadata that switches the feature on adds it to the protocol.
"""
WRITTEN = {"yes": "✓", "no": "–", "while inactive": "while inactive"}


def pages() -> dict[str, str]:
    """The one page."""
    header = ("feature", "kind", "read", "written", "added by itself", "needs", "remarks")
    return {"table-features.rst": page(
        "Table features", INTRODUCTION, table(header, map(_row, FEATURES.values())))}


def _row(feature: Feature) -> tuple[str, ...]:
    kind = "readers and writers" if feature.reader else "writers"
    remarks = [f"{feature.note[:1].upper()}{feature.note[1:]}."] if feature.note else []
    if feature.legacy:
        remarks.insert(0, f"Writer version {feature.min_writer} implies it.")
    if feature.stands_in:
        remarks.append(f"{code(feature.stands_in)} stands in for it.")
    needs = ", ".join(map(code, feature.requires)) or "–"
    return (code(feature.name), kind, "✓" if feature.read else "–", WRITTEN[feature.write],
            "✓" if feature.automatic else "–", needs, " ".join(remarks))
