"""Other firewalls on a node: whether they drop traffic that containers need, and what opens them."""
