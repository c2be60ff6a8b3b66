"""Every order in which writers can take their turns, and what comes of each."""
