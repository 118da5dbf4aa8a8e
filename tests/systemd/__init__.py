"""The units in a real, booted systemd. Needs root and systemd-nspawn; skipped, with the reason, elsewhere."""
