"""Floor 5: Hugging Face model folders, read and written. safetensors and JSON only; nothing here executes code."""
