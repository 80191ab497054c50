"""Does drafting change what a model says? Answers made twice and compared token by token."""
