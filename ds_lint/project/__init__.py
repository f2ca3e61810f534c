"""Which files of a project hold configs."""
