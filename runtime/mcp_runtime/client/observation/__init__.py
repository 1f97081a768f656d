"""What a program learns about a client's connection besides the results of its calls: callbacks and log records."""
