"""What upkeep a table needs: small files, skew, old logs, missing statistics; each with its command.

What lives here: the door. ``kinds`` lists what can be found, ``report`` has the values that say it.
``checkup`` asks each check in turn: of the files of the newest version (``files``, ``clustering``,
``statistics``), of its commits (``commits``, ``rewrites``), of the log (``logs``), of what is in the store
(``storage``). What it does not know: whether a table is sound (``verify``), how anything is mended.
"""

from deltanb.observe.checkup.checkup import checkup
from deltanb.observe.checkup.report import BlindSpot, Checkup, Finding

__all__ = ["BlindSpot", "Checkup", "Finding", "checkup"]
