"""The way from a text or a dict to its findings: engine, releases, selection."""
