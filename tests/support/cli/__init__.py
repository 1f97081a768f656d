"""The command line in tests."""
