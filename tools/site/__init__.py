"""What mkdocs adds to ``docs/`` when it builds the site, made of the rule pages, the stores and the code."""
