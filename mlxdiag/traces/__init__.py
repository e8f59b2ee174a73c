"""The record: its types, the file that holds it, and the comparison of two records.

Nothing here imports mlx, torch or rich, and the YAML library is loaded only for what is not plain JSON.
"""
