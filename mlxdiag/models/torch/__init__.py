"""transformers and torch behind the adapter's interface. Neither is imported before it is asked for."""
