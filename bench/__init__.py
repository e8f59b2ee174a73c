"""What `make bench` measures: every number is a ratio of two things timed in the same run, turn by turn."""
