"""A URL goes in, a transport comes out that reaches the server there over HTTP, in the way it understands."""
