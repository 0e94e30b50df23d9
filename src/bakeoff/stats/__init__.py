"""Arrays in, intervals and small frozen results out. Knows nothing of blocks, files or engines."""
