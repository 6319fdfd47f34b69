"""The only place that knows English, and how the words of other languages are told apart."""
