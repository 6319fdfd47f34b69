"""What texts show of themselves, by their words and their form alone."""
