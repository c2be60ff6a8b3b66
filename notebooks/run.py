"""Run tutorials from top to bottom and store their outputs: ``python notebooks/run.py NOTEBOOK…``.

What lives here: the run, and what is left out of what is stored: widgets, which no kernel stands behind any
more. JupyterLab would say "model not found" in their place, and not show the picture beside them.
What it does not know: what the tutorials show.
"""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

WIDGET = "application/vnd.jupyter.widget-view+json"
SECONDS_PER_CELL = 120  # as for nbval


def run(path: Path) -> None:
    """Run the notebook in its folder, and store it with the outputs that it has now."""
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook, timeout=SECONDS_PER_CELL, record_timing=False, store_widget_state=False,
        coalesce_streams=True,  # else where a text is cut depends on how busy the machine is
        resources={"metadata": {"path": str(path.parent)}})
    client.execute()
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            output.get("data", {}).pop(WIDGET, None)
    notebook.metadata["language_info"] = {"name": "python"}  # not its version on this machine
    nbformat.write(notebook, path)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        run(Path(argument))
