"""Models on disk and how they get there: cards, headers, downloads, folders of other programs. Runs no model."""
