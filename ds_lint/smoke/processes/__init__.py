"""The processes of a run and what they leave on the machine."""
