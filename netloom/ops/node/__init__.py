"""The contents of a node: network files, orphaned links, the nft table, leaks, and the host's owner."""
