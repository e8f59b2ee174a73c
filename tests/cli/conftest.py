from tests.cli.program import trace

__all__ = ["trace"]
