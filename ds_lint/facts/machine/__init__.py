"""What is installed on this machine and in the environment that trains: read from files, nothing is imported or built.

``nvidia-smi`` alone is run. What no file tells is None, never a guess.
"""
