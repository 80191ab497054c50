"""Why an answer is drafted, or is not: facts gathered, causes found, all of it said."""
