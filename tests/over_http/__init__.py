"""HTTP: the rules without I/O, the application in process, and servers and clients over real sockets."""
