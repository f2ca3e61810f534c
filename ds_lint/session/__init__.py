"""From options and settings to the context that each config is linted in."""
