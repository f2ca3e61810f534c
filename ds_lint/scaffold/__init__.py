"""A config to start from: what ``ds-lint init`` writes."""
