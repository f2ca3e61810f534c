"""The rule pages, ``rules/``, and their translations."""
