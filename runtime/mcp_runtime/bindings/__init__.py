"""The base classes and functions that generated code uses."""
