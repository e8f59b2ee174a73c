"""Model libraries behind one interface: what a config says, and instances that run the real code."""
