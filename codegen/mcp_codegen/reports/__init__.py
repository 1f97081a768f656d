"""How clear a schema is: what cannot be derived from it, what only the overlay answers, what contradicts itself."""
