"""Transforms: what changes the tools, resources and prompts that the clients of an app see."""
