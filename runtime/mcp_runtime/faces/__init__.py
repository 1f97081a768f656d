"""The base classes of the generated clients and servers: what all revisions have in common."""
