"""Trainer, checkpoints and resuming."""
