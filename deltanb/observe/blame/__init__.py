"""Who wrote each row, and who changed its values: :meth:`deltanb.DeltaTable.blame`.

What lives here: the door. ``blame`` puts the answer together, ``by_ids`` and ``by_files`` are the ways to it.
What it does not know: how to write rows.
"""

from deltanb.observe.blame.blame import Blame, Blamed, Doubt

__all__ = ["Blame", "Blamed", "Doubt"]
