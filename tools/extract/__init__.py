"""Extract from the source of a library release what it does with a DeepSpeed config, into ``schemas/``."""
