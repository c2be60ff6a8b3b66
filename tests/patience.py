"""How long a test waits before it says that something hangs: no test passes or fails by the clock.

On an idle machine nothing takes a hundredth of it, so a machine that does much else does not matter.
"""

PATIENCE = 600
"""Seconds."""
