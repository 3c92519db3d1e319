"""What people see: text, tables, progress. Nothing else of netloom writes to a terminal."""
