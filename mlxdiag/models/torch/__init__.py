"""transformers and torch behind the adapter's interface. Nothing is imported of either until it is asked for."""
