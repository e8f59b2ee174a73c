"""transformers' programs: generate, continuous batching and the server, told to the recorder."""
