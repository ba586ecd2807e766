"""Routes and errors in the forms that existing clients know: Text Embeddings Inference, OpenAI, Hugging Face."""
