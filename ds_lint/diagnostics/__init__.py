"""What is said of a config: rules, problems, findings, verdicts of runs, and the report that holds them."""
