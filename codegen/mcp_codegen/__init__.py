"""The generator: official schemas in, typed Python bindings out."""
