"""Where files are: folders, buckets, memory, and what a path of the log means."""
