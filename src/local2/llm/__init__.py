"""Language models: their interfaces, Ollama's and endpoints' models, and a rule-based fallback."""
