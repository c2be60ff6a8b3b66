"""The views of all objects: headings, lines and sections, as values."""
