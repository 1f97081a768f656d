"""Print a revision as Python source."""
