"""What the kernel's packet filters do with a packet: rules are read and a packet is traced."""
