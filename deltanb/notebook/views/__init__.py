"""What is shown of each object: headings, lines and sections, as values."""
