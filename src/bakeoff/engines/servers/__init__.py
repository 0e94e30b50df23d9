"""Programs that run as child processes: the guard of a server's process tree, and the servers of embedded engines."""
