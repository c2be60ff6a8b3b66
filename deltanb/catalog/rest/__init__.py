"""A catalog over HTTP: served, and used from afar as one in the process is."""
