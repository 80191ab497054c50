"""Making a step model of a GGUF, and measuring how well it does what its model does."""
