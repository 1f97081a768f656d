"""Large messages, handled in pieces."""
