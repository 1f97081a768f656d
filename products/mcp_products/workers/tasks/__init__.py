"""Tasks that any worker serves: shared in a store, or repeated by a queue in Redis."""
