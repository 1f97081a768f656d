"""The import of the official schema.ts and schema.json of a revision as a normalized schema."""
