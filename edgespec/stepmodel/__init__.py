"""Draft networks defined once, as a small graph built from a GGUF, with a plain twin and emitters for runtimes."""
