"""Delta tables over HTTP in the shape of Unity Catalog's Delta API."""
