"""The first version at which a statement about the data stops holding: :func:`deltanb.bisect`."""
