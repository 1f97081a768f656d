"""Providers: sources of tools, resources and prompts of an app that may differ for each request."""
