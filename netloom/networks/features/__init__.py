"""What a network can have besides addresses: masquerade, host ports, bandwidth, isolation, sysctls."""
