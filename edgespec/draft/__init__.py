"""Where guesses come from: each module is one drafter, or what drafters share; none knows a backend."""
