"""Configs that Hydra and OmegaConf compose of YAML and of words of the command line, with the place of each value.

Nothing of Hydra is run. What is not read as it would read it is ``NotComposedError``.
"""
