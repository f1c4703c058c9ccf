"""The command line: one small file per word. Nothing heavy is imported before a command runs."""
