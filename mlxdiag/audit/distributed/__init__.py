"""Families that are split over two processes: what a rank says, and what becomes of it in the table.

How ranks are started and what each of them does is the library's: `ring` for mlx-lm, `torchrun` for
transformers.
"""
