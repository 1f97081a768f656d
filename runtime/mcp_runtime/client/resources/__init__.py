"""Resources of a server by name: find one, and fill in its URI template."""
