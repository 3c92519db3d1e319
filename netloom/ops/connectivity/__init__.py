"""What `netloom connectivity` does: two throw-away containers, and the probes that run between them."""
