"""Commands of `netloom journal`: what the node remembers, verified, copied, and moved."""
