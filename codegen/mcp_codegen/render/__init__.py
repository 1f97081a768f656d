"""Print a revision as Python source: the types, the methods, the package; and the forms that other SDKs have."""
