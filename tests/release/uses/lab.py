"""With the extra ``lab``: JupyterLab is there, and the tutorials are inside."""

import subprocess
import sys
from pathlib import Path

import jupyterlab

import deltanb

assert jupyterlab.__version__
assert (Path(deltanb.__file__).parent / "tutorials" / "00-tour.ipynb").exists()
assert "lab" in subprocess.run([sys.executable, "-m", "deltanb", "--help"], capture_output=True, text=True,
                               check=True).stdout
