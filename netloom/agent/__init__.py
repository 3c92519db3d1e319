"""The node agent, which serves the plugin's requests."""
