"""A Flask service with models in globals, and the same service with lazyd."""
