"""Measures a model on this machine: which engine settings are fastest, and what passes of each width cost with them."""
