"""How each feature of the protocol behaves, in every revision that has it, and that the others do not have it."""
