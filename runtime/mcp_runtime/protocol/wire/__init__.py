"""The base class of generated models. A start loads it with the first type that is used."""
