"""Judges whether the node is well. Every finding is made in one place, whoever asks."""
