"""The `netloom` command. A command's module is imported when the command runs, not before."""
