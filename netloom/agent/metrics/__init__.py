"""What the agent counts and measures, in the text format of Prometheus."""
