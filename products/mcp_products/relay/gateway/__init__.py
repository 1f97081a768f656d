"""Many servers behind one endpoint: which tools clients see, with which arguments, how often, and who called."""
