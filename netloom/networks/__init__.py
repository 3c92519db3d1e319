"""From a network's config to an attachment's plan. No I/O."""
