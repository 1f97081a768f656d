"""Log records of the program: sent to clients, and about the messages of a server."""
