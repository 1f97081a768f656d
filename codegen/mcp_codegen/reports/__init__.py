"""Reports on schemas: the clarity report, and the explorer page."""
