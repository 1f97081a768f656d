"""What generated code inherits from and calls."""
