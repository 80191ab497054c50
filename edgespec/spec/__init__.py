"""Pure arithmetic of speculation on numpy arrays: no model, no text, no clock, no file, no thread."""
