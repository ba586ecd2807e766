"""Multi-task fine-tuning: one encoder, one head per task."""
