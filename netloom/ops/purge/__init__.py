"""Removes all of netloom from a machine, and nothing else."""
