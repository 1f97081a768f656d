"""The model of a revision: types, methods and lifecycle, read from its schema and the overlay."""
