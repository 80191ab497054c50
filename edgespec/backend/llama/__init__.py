"""The llama.cpp target, driven through llama-cpp-python's low-level API. Imported only when a model is opened."""
