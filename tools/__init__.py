"""Programs for developers: they are run from the repository and are no part of the package."""
