"""One family under one schedule on real model code, and what the three oracles say of it."""
