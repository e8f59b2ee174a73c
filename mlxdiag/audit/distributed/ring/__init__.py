"""mlx-lm over MLX's ring: tensor parallel, and pipeline."""
