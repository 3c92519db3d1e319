"""Reads the journal, with or without a running agent; makes and restores copies of it."""
