"""The model of a revision: types, methods and lifecycle, derived from its schema and the overlay."""
