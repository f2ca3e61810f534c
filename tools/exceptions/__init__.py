"""What an exception of the libraries means: from their sources of every release, and from runs of rejected configs."""
