"""The command line: one file a verb. Parse → app → render → exit code. Nothing imports this room."""
