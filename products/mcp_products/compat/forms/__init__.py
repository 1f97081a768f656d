"""The form of the official SDK that a process speaks, its errors, and names without a counterpart."""
