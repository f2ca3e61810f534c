"""Text to positioned tree, one file a language."""
