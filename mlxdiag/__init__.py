"""Flight recorder and test bench for LLM attention masks and KV caches."""

__version__ = "0.1.0"
