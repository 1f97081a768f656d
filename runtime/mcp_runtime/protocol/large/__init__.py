"""Large messages: what of them is validated in pieces."""
