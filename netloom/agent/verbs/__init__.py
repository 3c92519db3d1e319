"""CNI's verbs, as the agent serves them."""
