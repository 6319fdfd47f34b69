"""What the commands take, in groups; what they do is imported when they are called."""
