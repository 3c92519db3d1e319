"""`netloom plan`: plans of kernel objects, shown, applied, checked and removed."""
