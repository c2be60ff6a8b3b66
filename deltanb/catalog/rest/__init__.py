"""A catalog over HTTP: its server, and a client that is used like a catalog in the process."""
