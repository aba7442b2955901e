"""The pure core: commands become decisions. Standard library only; no clock, randomness, network or environment."""
