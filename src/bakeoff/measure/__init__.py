"""Measuring: rounds and their order, warm-up, blocks, telemetry, health. Writes through a Sink, asks a Stop."""
