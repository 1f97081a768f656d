"""Protocol extensions that the runtime implements: tasks."""
