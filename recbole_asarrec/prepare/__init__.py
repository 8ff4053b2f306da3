"""Atomic files from the publishers' raw files: raw lines → events → interactions → ``<name>.inter``."""
