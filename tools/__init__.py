"""Programs that make ds-lint's data and measure it."""
