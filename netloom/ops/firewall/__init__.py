"""Firewalls of others on a node: whether they drop what containers need, and what opens them."""
