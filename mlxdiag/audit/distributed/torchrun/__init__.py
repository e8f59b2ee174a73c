"""transformers over gloo, started by torchrun: tensor parallel by the model's own plan, and pipeline."""
