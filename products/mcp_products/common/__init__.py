"""What several products use and the core does not."""
