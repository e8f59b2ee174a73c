"""What an audit must know of the library under its hands, beyond what an instance and its backend tell."""
