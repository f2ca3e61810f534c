"""The sources of the site: what lies in docs/, and what is made of the rule pages, the stores and the code."""
