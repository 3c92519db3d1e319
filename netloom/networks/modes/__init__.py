"""How a network moves packets. A mode turns the facts of an attachment into a plan."""
