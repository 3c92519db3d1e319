"""What `netloom doctor` is made of: looks at the node, each for one kind of trouble, and what mends it."""
