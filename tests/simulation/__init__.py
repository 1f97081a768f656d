"""A deterministic simulation of workers, their store, the network and their clients: see `__main__`."""
