"""What is measured on a GPU, one file for each part.

A part has ``QUESTION``, a sentence; ``LANES``, how many of its items run at once; ``items(setting)``, in the order of
their value; and ``lane(setting)``, a context manager with what the items of one lane share.
"""
