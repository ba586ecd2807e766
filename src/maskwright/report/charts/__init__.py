"""SVG charts: lines, bars, histograms, dots with whiskers.

Charts fill the available width with a constant text size: positions are percentages, and lines are stretched without
their stroke. So they work on narrow and wide screens without scripts.
"""
