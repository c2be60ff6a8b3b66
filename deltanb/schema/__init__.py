"""What a table is: its types, columns, properties, protocol and features."""
