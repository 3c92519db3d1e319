"""What `netloom connectivity` is made of: two throw-away containers, and what is tried between them."""
