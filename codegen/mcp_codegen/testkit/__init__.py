"""The test kit: test vectors, a mock of either side, and recorded connections."""
