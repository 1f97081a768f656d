"""The quickstart of the protocol from data: a server and a client in a few languages, and their page."""
