"""What texts show by their words and their form alone."""
