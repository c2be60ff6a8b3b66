"""Delta tables of a catalog: where they are, their logs, and where their commits go."""
