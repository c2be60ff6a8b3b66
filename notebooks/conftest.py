"""nbval compares the text of every output; HTML and charts have tests of their own."""

from __future__ import annotations

import pytest

TEXT_ONLY = ("text/html", "image/svg+xml", "application/vnd.vegalite.v5+json")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave the other forms of an output out of the comparison."""
    for item in items:
        notebook = item.parent
        if hasattr(notebook, "skip_compare"):
            notebook.skip_compare = (*notebook.skip_compare, *TEXT_ONLY)
