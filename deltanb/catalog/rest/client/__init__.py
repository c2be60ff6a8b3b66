"""A catalog behind a server, used as one in the process is."""
