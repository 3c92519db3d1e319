"""`netloom connectivity`: two temporary containers, and the probes that run between them."""
