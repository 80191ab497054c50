"""A window to chat with a local model, which shows how its answers were drafted. Runs the engine in this process.

Modules that import Qt draw and forward; what they show is plain data, made and tested without Qt.
"""
