"""The agent's metrics, in Prometheus's text format."""
