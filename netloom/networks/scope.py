"""Within what no address may be given twice."""

# Attachments of the routed mode share the host's main table, so no two networks may have one address.
SCOPE = "main"
