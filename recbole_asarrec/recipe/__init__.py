"""What the default recipe adds to the paper, one piece a file."""
