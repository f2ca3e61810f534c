"""What the readers of the libraries take at the most."""

from __future__ import annotations

# How deep objects and arrays may nest for hjson, which makes two Python calls a level, and for json: measured where
# DeepSpeedConfig and HfDeepSpeedConfig open the file, with Python 3.10 and 3.11 (json reads deeper from 3.12 on), and
# with nothing but them on the stack. Under a script with a stack of its own it is less.
MOST_NESTING_HJSON = 494
MOST_NESTING_JSON = 991
MOST_DIGITS = 4300  # of an integer: with more, int() raises, in json and in hjson
MOST_BITS = 14_284  # of an integer that has no more digits
