"""A trial of a revision: its package is written to a temporary folder, imported, checked, and holds a conversation."""
