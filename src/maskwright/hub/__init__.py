"""Reading and writing Hugging Face model folders (safetensors and JSON); code in a folder is never executed."""
