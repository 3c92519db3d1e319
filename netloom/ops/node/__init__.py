"""What is on this node: networks and their files, orphaned links, the nft table, leaks, who owns the host."""
