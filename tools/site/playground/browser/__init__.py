"""What runs in the browser beside ds-lint; the modules lie at the top of its path there."""
