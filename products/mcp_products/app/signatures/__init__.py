"""What a function of a user says of its arguments: its type hints, its docstring, and the schema of both."""
