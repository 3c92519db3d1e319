"""The state of a node as one document: agent, journal, networks, pools, findings."""
