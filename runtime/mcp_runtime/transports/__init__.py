"""Ways to carry whole messages: in memory and over standard input and output."""
