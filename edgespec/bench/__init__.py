"""Measures drafting against plain decoding: the same prompts, interleaved, with plain always in the same run."""
