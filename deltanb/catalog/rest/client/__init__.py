"""A catalog behind a server, used like one in the process."""
