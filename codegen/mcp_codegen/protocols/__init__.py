"""Other protocols of JSON-RPC: their documents are read into the intermediate representation, and rendered."""
