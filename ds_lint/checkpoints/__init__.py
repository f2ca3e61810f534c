"""What a saved folder holds, read as data: nothing is imported, unpickled or loaded."""
