"""A SavedModel of TensorFlow as a python model of lazyd."""
