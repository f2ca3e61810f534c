"""What the user's script changes outside the folder of the run: kept before it changes, so that it can be restored.

The package is imported at the start of every Python of the user's command, and imports nothing that costs time.
"""
