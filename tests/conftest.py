"""Hypothesis without its clock: a busy machine must not fail a test."""

from hypothesis import settings

settings.register_profile("edgespec", deadline=None)
settings.load_profile("edgespec")
