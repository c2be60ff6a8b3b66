"""nbval compares the text of every output; HTML and charts have tests of their own."""

from __future__ import annotations

import pytest

from tests.groups import pytest_xdist_make_scheduler
from tests.machine import missing_java

__all__ = ["pytest_xdist_make_scheduler"]  # a hook: a tutorial has one worker, and so one kernel

TEXT_ONLY = ("text/html", "image/svg+xml", "application/vnd.vegalite.v5+json")
IN_A_BUCKET = r"\bpart-\d{5}-[0-9a-f-]+"
"""Data files of a bucket: there a file may take the place of another, so no seed gives them their names."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave the other forms of an output out of the comparison, and names that no seed gives.

    Tutorials that start Spark skip where there is no Java.
    """
    for item in items:
        notebook = item.parent
        if hasattr(notebook, "skip_compare"):
            notebook.skip_compare = (*notebook.skip_compare, *TEXT_ONLY)
            if (why := missing_java()) and any("dn.spark(" in cell.source for cell in notebook.nb.cells):
                item.add_marker(pytest.mark.skip(reason=why))
            if any("S3Server(" in cell.source for cell in notebook.nb.cells):
                notebook.sanitize_patterns[IN_A_BUCKET] = "part"
