"""Embedders, the vector index in Chroma, and a reranker: what runs in the vector worker."""
