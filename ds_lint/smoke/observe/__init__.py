"""What one rank holds and does, read from tensors and files; the same for a small run and for a script."""
