"""Servers: typed wrappers, lock, comparison, bundle, registry, and the configuration files of hosts."""
