"""What `netloom doctor` does: checks of the node, each for one subject, and fixes for what they find."""
