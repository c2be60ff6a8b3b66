"""Tables in the shape of Unity Catalog."""
