"""Servers in mock time: whole runs with a known truth and the noise that serving shows, made fast."""
