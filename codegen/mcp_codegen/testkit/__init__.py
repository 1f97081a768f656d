"""The test kit: what a schema says goes in; vectors, a mock of either side, and recorded conversations come out."""
