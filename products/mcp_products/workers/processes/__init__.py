"""Several processes that serve one endpoint, and the process that starts and ends them."""
