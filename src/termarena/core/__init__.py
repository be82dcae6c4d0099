"""What every room stands on: the error tree, settings, the cache folder, and how files are written."""
