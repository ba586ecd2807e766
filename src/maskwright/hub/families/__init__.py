"""One module per checkpoint family, containing only its tables (see `hub.family`)."""
