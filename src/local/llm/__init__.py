"""Language models: what the stack expects of them, Ollama's and endpoints', and rules instead."""
