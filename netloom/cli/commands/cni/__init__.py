"""`netloom cni`: compatible with cnitool in verbs, environment, container IDs and cache, with additions."""
