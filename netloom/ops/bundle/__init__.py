"""What `netloom bundle` is made of: sources, what is removed from them, and the archive."""
