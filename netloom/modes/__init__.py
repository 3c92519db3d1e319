"""From an attachment to a plan: pure functions, one module a mode."""
