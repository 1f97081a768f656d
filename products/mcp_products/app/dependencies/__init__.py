"""Dependencies: parameters of tools, prompts and resources whose values are computed on the server."""
