"""A small model with real weights, where its package can be had: healthy, collapsed, fluent but wrong."""
