"""What all processes of an endpoint have measured, added up at one path for Prometheus."""
