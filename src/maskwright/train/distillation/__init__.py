"""Knowledge distillation and pruning."""
