"""The explorer: every revision on one page, with its methods, its types and what changed."""
