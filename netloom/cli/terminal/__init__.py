"""Text, tables and progress for people. No other part of netloom writes to a terminal."""
