"""One app with all features of a context, of dependencies and of middleware, and the peers that use it."""
