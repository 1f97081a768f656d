"""`gateway --check`: everything that is wrong in a file of a gateway, each with its line."""
