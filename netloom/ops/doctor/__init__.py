"""`netloom doctor`: checks of the node, one for each subject, and fixes for their findings."""
