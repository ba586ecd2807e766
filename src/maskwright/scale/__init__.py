"""Corpus preparation and bulk inference on many machines with Ray Data (extra "scale"). Nothing else imports this."""
