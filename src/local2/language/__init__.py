"""The only place that knows English and German; it tells apart the words of other languages."""
