"""What is installed where the tests run."""
