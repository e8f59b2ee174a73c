"""The adapter to mlx-lm. Importing this package imports neither mlx nor mlx-lm; building an instance does."""
