"""mlx-lm's programs: its generators, batches, server, prompt caches and files, told to the recorder."""
