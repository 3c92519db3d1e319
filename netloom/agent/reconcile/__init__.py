"""Keeps the kernel as the journal says: recovery, repair, collection, and what the node itself needs."""
