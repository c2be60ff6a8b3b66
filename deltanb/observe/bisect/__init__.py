"""The first version at which a statement about the data stops holding: :func:`deltanb.bisect`.

What lives here: the door. ``places`` are where a statement can be asked, ``invariants`` the statements,
``search`` chooses the places, ``raced`` names who ran at the same time as the commit that broke it.
What it does not know: how to mend a table.
"""

from deltanb.observe.bisect.bisection import Bisection, Trial
from deltanb.observe.bisect.places import Instant

__all__ = ["Bisection", "Instant", "Trial"]
