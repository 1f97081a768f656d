"""Tasks at run time: a server whose calls become tasks, and clients that ask for them or wait for their results."""
