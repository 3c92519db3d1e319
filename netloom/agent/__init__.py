"""The node agent: what stands behind the plugin."""
