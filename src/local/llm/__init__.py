"""Language models: what the stack expects of them, those of Ollama, and rules in their place."""
