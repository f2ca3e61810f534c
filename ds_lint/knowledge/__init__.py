"""What the libraries of a target read, from ``schemas/``: keys, tables, stacks, coercion, suggestions."""
