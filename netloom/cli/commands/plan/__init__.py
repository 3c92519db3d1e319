"""`netloom plan`: kernel objects written down by hand, applied, checked and removed."""
