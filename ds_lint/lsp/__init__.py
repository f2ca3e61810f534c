"""The language server: what ``ds-lint check`` reports, while the user types.

``server`` wires it to pygls, which nothing else in ds-lint imports. ``documents`` are the open texts, ``project`` is
what each is linted with, ``positions`` counts like the client; ``diagnostics``, ``hover``, ``completion``, ``actions``
and ``links`` each answer one kind of question, and ``cursor`` says what is where in a text that may be half typed.
"""
