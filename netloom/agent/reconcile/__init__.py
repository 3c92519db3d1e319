"""Keeps the kernel as the journal says: recovery, repair, collection, and the node's own objects."""
