"""The live view of `netloom top`."""
