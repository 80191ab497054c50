"""How a model is run: the only place that imports an engine, and only when it is needed."""
