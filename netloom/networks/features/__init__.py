"""Features of a network besides addresses: masquerade, host ports, bandwidth, isolation, sysctls."""
