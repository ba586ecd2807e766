"""Fine-tuning on labeled data."""
