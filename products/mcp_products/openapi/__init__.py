"""OpenAPI: the operations of an HTTP API as tools and resources of an app."""
