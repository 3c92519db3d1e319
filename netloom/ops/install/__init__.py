"""Makes a machine a node: the plugin, the agent, the network, step by step."""
