"""Code mode: clients see a tool to search for functions and a tool to run programs that call them."""
