"""`netloom journal`: verify, back up, restore, export and import the journal."""
