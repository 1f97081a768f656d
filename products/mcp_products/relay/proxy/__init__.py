"""Proxies: apps that forward the messages of their clients to another server, and its messages to the clients."""
