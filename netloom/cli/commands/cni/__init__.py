"""`netloom cni`: cnitool's verbs, environment, container IDs and cache, and a little more."""
