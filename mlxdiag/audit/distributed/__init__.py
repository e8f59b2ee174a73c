"""Families that are split over two processes."""
