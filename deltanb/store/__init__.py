"""Where files are: folders, memory, and what a path of the log means."""
