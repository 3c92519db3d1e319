"""What the kernel's packet filters do with a packet: reads the rules and traces a packet through them."""
