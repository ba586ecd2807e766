"""Fine-tuning tasks: examples, model head, loss, decoding and metrics, one file or package per task; see `base`."""
