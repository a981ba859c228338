"""One reader a format: an opened file becomes a document."""
