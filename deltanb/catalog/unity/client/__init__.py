"""A catalog that Unity Catalog serves, used like one of this library's own."""
