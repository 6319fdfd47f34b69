"""What texts say of themselves, by their words and their form alone."""
