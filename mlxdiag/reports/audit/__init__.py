"""One small renderer per format, over an audit. The table of them is in `formats.py`."""
