"""Hold ds-lint against the real DeepSpeed of many releases, each in an environment of its own."""
