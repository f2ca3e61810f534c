"""The settings of a project: ``[tool.ds-lint]`` in a ``pyproject.toml``, or a ``ds-lint.toml``.

``nearest`` finds the file that counts for a config, ``table`` says which settings there are, ``reader`` holds a file
and those that it extends against that table, ``record`` is what comes of it, and ``schema`` is the JSON Schema of the
table for editors.

The nearest file above a config counts whole: nothing is merged with those further up unless it extends them.
``ds-lint.toml`` comes before the ``pyproject.toml`` beside it, and a ``pyproject.toml`` without a table of ours is
passed over. Without any, the user's own file counts. Paths in a file are relative to its folder. The command line comes
before all of it.

This runs on the clean path of ``check``: where no file is near, nothing but ``nearest`` and ``record`` is imported.
"""
