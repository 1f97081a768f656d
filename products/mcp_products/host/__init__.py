"""Handlers of sampling requests that call the models of a provider, for clients."""
