"""Extensions: a manifest and a schema go in, what they add to a revision comes out."""
