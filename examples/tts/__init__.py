"""Text to speech: Piper's pipeline over a network that is a model of lazyd, and an HTTP front that stays."""
