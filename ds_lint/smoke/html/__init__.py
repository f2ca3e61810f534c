"""The report of training runs as a page."""
