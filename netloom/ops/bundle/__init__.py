"""`netloom bundle`: its sources, the removal of secrets and names, and the archive."""
