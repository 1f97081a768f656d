"""What tools, resources and prompts of an app have in common: their catalog, URIs, functions and visibility."""
