"""The decorator face: what functions become, and the JSON Schemas that values are checked against."""
