"""Run tutorials from top to bottom and store their outputs: ``python notebooks/run.py NOTEBOOK…``.

What lives here: the run, and what is left out of what is stored: widgets, which no kernel stands behind any
more. JupyterLab would say "model not found" in their place. Their pictures are stored as they were when the
cell had run: nbval compares them then, and the text around them is about that moment.
What it does not know: what the tutorials show.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

WIDGET = "application/vnd.jupyter.widget-view+json"
HTML = "text/html"
NAME_OF_WIDGET = re.compile(r'(?<=class="dnb-still) dnb-[0-9a-f]+(?=")')
SECONDS_PER_CELL = 120  # as for nbval


class Client(NotebookClient):
    """A run in which no output changes once its cell has run."""

    def process_message(self, msg: dict[str, Any], cell: Any, cell_index: int) -> Any:
        """Take in a message of the kernel, but for those that change an output."""
        if msg["msg_type"] == "update_display_data":
            return None
        return super().process_message(msg, cell, cell_index)


def run(path: Path) -> None:
    """Run the notebook in its folder, and store it with the outputs that it has now."""
    notebook = nbformat.read(path, as_version=4)
    client = Client(
        notebook, timeout=SECONDS_PER_CELL, record_timing=False, store_widget_state=False,
        coalesce_streams=True,  # else where a text is cut depends on how busy the machine is
        resources={"metadata": {"path": str(path.parent)}})
    client.execute()
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            data.pop(WIDGET, None)
            if HTML in data:
                data[HTML] = NAME_OF_WIDGET.sub("", data[HTML])
    notebook.metadata["language_info"] = {"name": "python"}  # not its version on this machine
    nbformat.write(notebook, path)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        run(Path(argument))
