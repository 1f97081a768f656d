"""The parts that clients and servers share: handlers, contexts, checks and requests."""
