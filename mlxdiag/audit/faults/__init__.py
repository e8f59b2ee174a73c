"""From wrong cells to faults with causes; baselines, shards and other copies of the library."""
