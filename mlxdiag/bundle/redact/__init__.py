"""What may enter a bundle, what stands in place of the rest, and the detector that looks again."""
