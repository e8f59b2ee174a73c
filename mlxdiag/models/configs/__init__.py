"""What a config.json means, whichever library runs it: layer kinds, windows, sizes."""
