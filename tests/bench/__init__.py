"""Figures of this machine: `make bench`. Ratios from one run, since machines are noisy."""
