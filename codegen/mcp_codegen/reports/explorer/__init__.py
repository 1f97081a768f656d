"""The explorer: one page with the methods, the types and the changes of every revision."""
