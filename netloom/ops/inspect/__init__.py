"""Everything that is known of an attachment, and how it differs from its plan."""
