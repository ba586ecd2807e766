"""Files of annotation tools: labeled spans and classes of texts."""
