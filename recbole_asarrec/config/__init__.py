"""Configuration keys: what they are, what they must be, what ``auto`` means."""
