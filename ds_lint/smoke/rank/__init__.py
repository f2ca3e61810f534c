"""What one rank of the small run does: the warm process that forks it, its training, and the reference run."""
