"""Is this table sound: what its log proves, what is possible, and what no log can tell.

What lives here: the door. ``kinds`` lists what can be wrong, and ``report`` has the values that say it.
``verify`` goes through the log, ``state`` is the table from version to version, ``files``, ``metadata``,
``derived`` and ``storage`` look for what is wrong, and ``isolation`` judges who passed whom.
What it does not know: how to mend a table.
"""

from deltanb.observe.verify.report import BlindSpot, Cycle, Finding, Verification
from deltanb.observe.verify.verify import verify

__all__ = ["BlindSpot", "Cycle", "Finding", "Verification", "verify"]
