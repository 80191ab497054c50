"""Programs that run on edgespec."""
