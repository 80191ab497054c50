"""Hypothesis without its clock: a busy machine must not fail a test. And Ctrl-C as in a terminal, also for a run in the
background, where shells have it ignored.
"""

import signal

from hypothesis import settings

settings.register_profile("edgespec", deadline=None)
settings.load_profile("edgespec")
signal.signal(signal.SIGINT, signal.default_int_handler)
