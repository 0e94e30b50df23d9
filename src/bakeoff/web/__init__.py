"""How a server is reached: its address, and the proxy on the way. Shared by what measures and what probes."""
