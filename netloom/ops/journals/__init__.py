"""The journal, read beside an agent or without one; copies of it."""
