"""Networks: from a network's configuration to the plan of an attachment. No I/O."""
