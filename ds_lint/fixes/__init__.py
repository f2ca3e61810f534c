"""Fixes: building their edits, applying them, and keeping the layout of the text."""
