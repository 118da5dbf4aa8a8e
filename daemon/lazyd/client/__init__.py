"""The client library: how programs reach the daemon and the models."""
