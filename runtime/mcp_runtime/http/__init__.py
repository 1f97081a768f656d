"""The rules of HTTP, without I/O: headers and parsed messages go in, verdicts come out."""
