"""What a config asks for, by the documented formulas; never read from an engine."""
