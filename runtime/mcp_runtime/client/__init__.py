"""The client side of a connection: requests, handlers, caching and subscriptions."""
