"""The tests on Windows: a Windows of its own, and what runs there."""
