"""Delta tables of a catalog: their places, logs and commits."""
