"""``python -m deltanb``: the command line, where scripts of the environment are not on the path."""

from __future__ import annotations

import sys

from deltanb.app.cli import main

if __name__ == "__main__":
    sys.exit(main())
