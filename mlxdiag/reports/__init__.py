"""One small renderer per format, over `inspect.findings.Report`. The table of them is in `formats.py`."""
