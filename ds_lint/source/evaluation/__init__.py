"""A bounded evaluator of Python: what straight code does to values, without importing or running anything."""
