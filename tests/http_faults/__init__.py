"""What goes wrong over HTTP, and what attackers send, over real sockets."""
