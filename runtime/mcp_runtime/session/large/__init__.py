"""Large messages of a session."""
